//! Compiles the decoder that misbehaves to WebAssembly, for the tests to load as a user would.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const TARGET: &str = "wasm32-unknown-unknown";

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let root = Path::new(&env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("..");
    for watched in ["tests/support/bad-plugins", "plugins/sdk", "wit"] {
        println!("cargo::rerun-if-changed={}", root.join(watched).display());
    }
    let target = out.join("target");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(&root).args(["build", "--profile", "plugin", "--target", TARGET]);
    cargo.args(["-p", "bad-plugin"]).arg("--target-dir").arg(&target);
    // What the outer build was told is for the host's machine.
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_ENCODED_") || text.starts_with("CARGO_PROFILE_") {
            cargo.env_remove(&name);
        }
    }
    cargo.env_remove("RUSTC_WORKSPACE_WRAPPER").env_remove("RUSTC_WRAPPER");
    cargo.env("RUSTFLAGS", "-Ctarget-feature=+simd128");
    let done = cargo.output().expect("cargo can be started");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let module = target.join(TARGET).join("plugin").join("bad_plugin.wasm");
    let copy = out.join("bad_plugin.wasm");
    fs::copy(&module, &copy).expect("cargo has made it");
    println!("cargo::rustc-env=BAD_PLUGIN={}", copy.display());
}
