//! For build scripts: compiles plugins of this workspace to WebAssembly.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Vector instructions, and a heap that exists from the start: for short objects, growing it would
/// take longer than decoding them. Relaxed SIMD instructions are used only where all machines give
/// the same results.
pub const RUSTFLAGS: &str =
    "-Ctarget-feature=+simd128,+relaxed-simd -Clink-arg=--initial-heap=262144";
const TARGET: &str = "wasm32-unknown-unknown";

/// The modules of the crates `packages`, in their order. Each has the feature `export`. `root` is the
/// workspace.
///
/// If `CARGO_TARGET_DIR` is set, all build scripts and profiles share the folder of this name in
/// it. Otherwise the folder is in `OUT_DIR`. A plugin that wraps another one needs its own folder,
/// because cargo builds the wrapped crate without its export, but under the same name.
///
/// # Errors
/// The error is a text for the person who builds: cargo can't be started, or a plugin does not
/// compile.
pub fn compile(root: &Path, folder: &str, packages: &[&str]) -> Result<Vec<Vec<u8>>, String> {
    let target = target_dir(folder)?;
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root).args(["build", "--profile", "plugin", "--target", TARGET]);
    cargo.arg("--target-dir").arg(&target);
    for package in packages {
        cargo.args(["-p", package, "--features", &format!("{package}/export")]);
    }
    // The settings of the outer build are for the host's machine, not for the plugins.
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_ENCODED_") || text.starts_with("CARGO_PROFILE_") {
            cargo.env_remove(&name);
        }
    }
    cargo.env_remove("RUSTC_WORKSPACE_WRAPPER").env_remove("RUSTC_WRAPPER");
    cargo.env("RUSTFLAGS", RUSTFLAGS);
    let output = cargo.output().map_err(|error| format!("cargo can't be started: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "the plugins don't compile; if the target is missing: rustup target add {TARGET}\n{}",
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    packages.iter().map(|package| read_module(&target, package)).collect()
}

fn target_dir(folder: &str) -> Result<PathBuf, String> {
    if let Some(outer) = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from)
        && outer.is_absolute()
    {
        return Ok(outer.join(folder));
    }
    let out = env::var_os("OUT_DIR").ok_or("cargo has not set OUT_DIR")?;
    Ok(PathBuf::from(out).join(folder))
}

fn read_module(target: &Path, package: &str) -> Result<Vec<u8>, String> {
    let name = format!("{}.wasm", package.replace('-', "_"));
    let module = target.join(TARGET).join("plugin").join(name);
    fs::read(&module).map_err(|error| format!("{}: {error}", module.display()))
}
