//! Compiles the built-in decoders to WebAssembly and wraps them as components, so that the binary
//! carries the very files that a user could load. They run through the same sandbox as a user's.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const TARGET: &str = "wasm32-unknown-unknown";
const BUILTINS: [&str; 8] = [
    // In the order of `docs/decoders.md`.
    "csv",
    "fixed",
    "jsonl",
    "length-prefixed",
    "lines",
    "recordio",
    "tfrecord",
    "webdataset",
];

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let root = Path::new(&env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("..");
    for watched in ["plugins", "wit"] {
        println!("cargo::rerun-if-changed={}", root.join(watched).display());
    }
    // <target>/<profile>/build/<package>/out: a folder beside the profiles serves them all.
    let target = out.ancestors().nth(4).expect("cargo's own layout").join("plugins");
    compile(&root, &target);
    for name in BUILTINS {
        let file = format!("pipemill_{}.wasm", name.replace('-', "_"));
        let module = target.join(TARGET).join("plugin").join(file);
        let module = fs::read(&module)
            .unwrap_or_else(|error| fail(&format!("{}: {error}", module.display())));
        fs::write(out.join(format!("{name}.wasm")), wrap(name, &module))
            .unwrap_or_else(|error| fail(&format!("{}: {error}", out.display())));
    }
}

fn compile(root: &Path, target: &Path) {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root).args(["build", "--profile", "plugin", "--target", TARGET]);
    cargo.arg("--target-dir").arg(target);
    for name in BUILTINS {
        cargo.arg("-p").arg(format!("pipemill-{name}"));
    }
    // What the outer build was told is for the host's machine, not for the plugins.
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
            "the built-in decoders don't compile; if the target is missing: rustup target add {TARGET}\n{}",
            String::from_utf8_lossy(&done.stderr)
        )),
        Err(error) => fail(&format!("cargo can't be started: {error}")),
    }
}

fn wrap(name: &str, module: &[u8]) -> Vec<u8> {
    wit_component::ComponentEncoder::default()
        .module(module)
        .and_then(|encoder| encoder.validate(true).encode())
        .unwrap_or_else(|error| fail(&format!("{name} can't be wrapped as a component: {error:#}")))
}

fn fail(why: &str) -> ! {
    eprintln!("{why}");
    std::process::exit(1);
}
