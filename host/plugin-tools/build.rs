//! Assembles the module that stands for the system in plugins whose language asks for one.
#![allow(clippy::disallowed_macros, reason = "cargo reads the output")]

use std::path::Path;
use std::{env, fs};

const SOURCE: &str = "src/project/wasi.wat";

fn main() {
    println!("cargo::rerun-if-changed={SOURCE}");
    let folder = env::var_os("OUT_DIR").expect("cargo sets it");
    let module = wat::parse_file(SOURCE).unwrap_or_else(|error| panic!("{error}"));
    let out = Path::new(&folder).join("wasi.wasm");
    fs::write(&out, module).unwrap_or_else(|error| panic!("{}: {error}", out.display()));
}
