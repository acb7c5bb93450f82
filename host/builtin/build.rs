//! Compiles the built-in decoders to WebAssembly. The binary embeds the same files that a user
//! could load as plugins.
//!
//! The binary also embeds machine code for them if `PIPEMILL_PRECOMPILED` names a folder that
//! `pipemill plugin compile --builtin` has filled. `make` builds in these two steps. Without
//! machine code, the host compiles a decoder on first use.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const TARGET: &str = "wasm32-unknown-unknown";
const PRECOMPILED: &str = "PIPEMILL_PRECOMPILED";
const BUILTINS: [&str; 11] = [
    // In the order of `docs/decoders.md`.
    "augmented-manifest",
    "csv",
    "fixed",
    "jsonl",
    "length-prefixed",
    "lines",
    "recordio",
    "recordio-protobuf",
    "tf-example",
    "tfrecord",
    "webdataset",
];

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let root = Path::new(&env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../..");
    for watched in ["plugins", "wit", "Cargo.toml", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={}", root.join(watched).display());
    }
    println!("cargo::rerun-if-env-changed={PRECOMPILED}");
    let precompiled = env::var_os(PRECOMPILED).map(PathBuf::from);
    let target = out.join("target");
    compile(&root, &target);
    for name in BUILTINS {
        let module = format!("pipemill_{}.wasm", name.replace('-', "_"));
        let module = target.join(TARGET).join("plugin").join(module);
        let module = fs::read(&module)
            .unwrap_or_else(|error| fail(&format!("{}: {error}", module.display())));
        let code = precompiled.as_deref().and_then(|folder| machine_code(folder, name, &module));
        for (ending, bytes) in [("wasm", module), ("code", code.unwrap_or_default())] {
            fs::write(out.join(format!("{name}.{ending}")), bytes)
                .unwrap_or_else(|error| fail(&format!("{}: {error}", out.display())));
        }
    }
}

/// Reads the machine code for `module` from `folder`. `None` if there is none, or only code for
/// another version of the module.
fn machine_code(folder: &Path, name: &str, module: &[u8]) -> Option<Vec<u8>> {
    let source = folder.join(format!("{name}.wasm"));
    println!("cargo::rerun-if-changed={}", source.display());
    let code = fs::read(folder.join(format!("{name}.code"))).ok()?;
    (fs::read(source).ok()? == module).then_some(code)
}

/// Compiles all built-in decoders into the folder `target`.
fn compile(root: &Path, target: &Path) {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root).args(["build", "--profile", "plugin", "--target", TARGET]);
    cargo.arg("--target-dir").arg(target);
    for name in BUILTINS {
        cargo.arg("-p").arg(format!("pipemill-{name}"));
    }
    // The settings of the outer build are for the host's machine, not for the plugins.
    for (name, _) in env::vars_os() {
        let name_text = name.to_string_lossy();
        if name_text.starts_with("CARGO_ENCODED_") || name_text.starts_with("CARGO_PROFILE_") {
            cargo.env_remove(&name);
        }
    }
    cargo.env_remove("RUSTC_WORKSPACE_WRAPPER").env_remove("RUSTC_WRAPPER");
    cargo.env("RUSTFLAGS", "-Ctarget-feature=+simd128");
    match cargo.output() {
        Ok(done) if done.status.success() => {}
        Ok(done) => fail(&format!(
            "the built-in decoders don't compile; if the target is missing: \
             rustup target add {TARGET}\n{}",
            String::from_utf8_lossy(&done.stderr)
        )),
        Err(error) => fail(&format!("cargo can't be started: {error}")),
    }
}

fn fail(why: &str) -> ! {
    eprintln!("{why}");
    std::process::exit(1);
}
