//! Compiles the decoder that misbehaves to WebAssembly, for the tests to load as a user would.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let root =
        Path::new(&env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../..");
    for watched in ["tests/support/bad-plugins", "plugins/sdk", "wit"] {
        println!("cargo::rerun-if-changed={}", root.join(watched).display());
    }
    let modules = pipemill_plugin_build::compile(&root, "wasm", &["bad-plugin"])
        .unwrap_or_else(|error| panic!("{error}"));
    let copy = out.join("bad_plugin.wasm");
    fs::write(&copy, &modules[0]).expect("cargo has made the folder");
    println!("cargo::rustc-env=BAD_PLUGIN={}", copy.display());
}
