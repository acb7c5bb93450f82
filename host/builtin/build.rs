//! Compiles the built-in decoders to WebAssembly. The binary embeds the same files that a user
//! could load as plugins.
//!
//! The binary also embeds machine code for them if `PIPEMILL_PRECOMPILED` names a folder that
//! `pipemill plugin compile --builtin` has filled. `make` builds in these two steps. Without
//! machine code, the host compiles a decoder on first use.
#![allow(clippy::disallowed_macros, reason = "cargo reads the output")]

use std::path::{Path, PathBuf};
use std::{env, fs};

const PRECOMPILED: &str = "PIPEMILL_PRECOMPILED";

/// Takes the names from the table.
macro_rules! builtins {
    ($($name:literal, $version:literal, $about:literal;)*) => {
        const BUILTINS: &[&str] = &[$($name),*];
    };
}
include!("src/table.rs");

/// Decoders that wrap another one: the crate of the other is a library in them.
const WRAPPERS: [&str; 1] = ["tokens"];

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let root = Path::new(&env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../..");
    let shared = ["wit", "Cargo.toml", "Cargo.lock"].map(|path| root.join(path));
    for watched in crates(&root.join("plugins")).iter().chain(&shared) {
        println!("cargo::rerun-if-changed={}", watched.display());
    }
    println!("cargo::rerun-if-env-changed={PRECOMPILED}");
    let precompiled = env::var_os(PRECOMPILED).map(PathBuf::from);
    let plain: Vec<_> = BUILTINS.iter().copied().filter(|name| !WRAPPERS.contains(name)).collect();
    let groups = [("wasm", plain), ("wasm-wrappers", WRAPPERS.to_vec())];
    for (name, module) in groups.iter().flat_map(|(folder, names)| compile(&root, folder, names)) {
        let packed =
            precompiled.as_deref().and_then(|folder| precompiled_for(folder, name, &module));
        let (wasm, code) = packed.unwrap_or_else(|| (module, Vec::new()));
        for (extension, bytes) in [("wasm", wasm), ("code.zst", code)] {
            fs::write(out.join(format!("{name}.{extension}")), bytes)
                .unwrap_or_else(|error| fail(&format!("{}: {error}", out.display())));
        }
    }
}

/// The crates in `plugins` that belong to this workspace. A plugin with its own lock file does not.
fn crates(plugins: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(plugins)
        .unwrap_or_else(|error| fail(&format!("{}: {error}", plugins.display())));
    let folders = entries.flatten().map(|entry| entry.path());
    folders.filter(|folder| !folder.join("Cargo.lock").exists()).collect()
}

/// Compiles these decoders. Returns each with its module.
fn compile<'n>(root: &Path, folder: &str, names: &[&'n str]) -> Vec<(&'n str, Vec<u8>)> {
    let packages: Vec<_> = names.iter().map(|name| format!("pipemill-{name}")).collect();
    let packages: Vec<_> = packages.iter().map(String::as_str).collect();
    let modules = pipemill_plugin_build::compile(root, folder, &packages)
        .unwrap_or_else(|error| fail(&error));
    names.iter().copied().zip(modules).collect()
}

/// Reads `module`, compressed, and the machine code for it from `folder`. `None` if there is no
/// machine code, or only for another version of the module.
fn precompiled_for(folder: &Path, name: &str, module: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let source = folder.join(format!("{name}.wasm"));
    println!("cargo::rerun-if-changed={}", source.display());
    let read = |extension| fs::read(folder.join(format!("{name}.{extension}"))).ok();
    let (packed, code) = (read("wasm.zst")?, read("code.zst")?);
    (fs::read(source).ok()? == module).then_some((packed, code))
}

fn fail(why: &str) -> ! {
    eprintln!("{why}");
    std::process::exit(1);
}
