//! Compiles the built-in decoders to WebAssembly and wraps them as components, so that the binary
//! carries the very files that a user could load. They run through the same sandbox as a user's.
//! What the engine would make of them at each start is made here, once. So is what the SDK's macro
//! makes of the interface, for the copy of the SDK in new projects: they build in a tenth of the time.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

#[path = "src/decode/settings.rs"]
mod settings;

const TARGET: &str = "wasm32-unknown-unknown";
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

/// What the compiler may expect of an x86-64 machine: any since 2015 (x86-64-v3).
const X86_64_V3: [&str; 11] = [
    "has_sse3",
    "has_ssse3",
    "has_sse41",
    "has_sse42",
    "has_popcnt",
    "has_avx",
    "has_avx2",
    "has_fma",
    "has_bmi1",
    "has_bmi2",
    "has_lzcnt",
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
    fs::write(out.join("bindings.rs"), bindings(&root))
        .unwrap_or_else(|error| fail(&format!("{}: {error}", out.display())));
    let compiler = compiler();
    for name in BUILTINS {
        let module = format!("pipemill_{}.wasm", name.replace('-', "_"));
        let module = target.join(TARGET).join("plugin").join(module);
        let module = fs::read(&module)
            .unwrap_or_else(|error| fail(&format!("{}: {error}", module.display())));
        let component = wrap(name, &module);
        let compiled = match &compiler {
            Some(compiler) => compiler
                .precompile_component(&component)
                .unwrap_or_else(|error| fail(&format!("{name} can't be compiled: {error:#}"))),
            None => Vec::new(),
        };
        for (ending, bytes) in [("wasm", component), ("compiled", compiled)] {
            fs::write(out.join(format!("{name}.{ending}")), bytes)
                .unwrap_or_else(|error| fail(&format!("{}: {error}", out.display())));
        }
    }
}

/// The engine's compiler for the machine that the host is built for, if that is one it can compile for
/// from here; else the host compiles when it starts.
fn compiler() -> Option<wasmtime::Engine> {
    let mut settings = settings::settings();
    settings.target(&env::var("TARGET").expect("cargo sets TARGET")).ok()?;
    if env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64") {
        for feature in X86_64_V3 {
            // SAFETY: a machine that lacks the feature refuses the code when it loads it.
            unsafe { settings.cranelift_flag_enable(feature) };
        }
    }
    wasmtime::Engine::new(&settings).ok()
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

/// What `wit_bindgen::generate!` expands to in the SDK.
fn bindings(root: &Path) -> Vec<u8> {
    use wit_bindgen_core::{Files, WorldGenerator, wit_parser::Resolve};
    let mut resolve = Resolve::default();
    let mut files = Files::default();
    let options = wit_bindgen_rust::Opts {
        format: true,
        pub_export_macro: true,
        default_bindings_module: Some("pipemill_plugin::bindings".to_owned()),
        ..Default::default()
    };
    resolve
        .push_path(root.join("wit/0.1"))
        .and_then(|(package, _)| resolve.select_world(&[package], None))
        .and_then(|world| options.build().generate(&mut resolve, world, &mut files))
        .unwrap_or_else(|error| fail(&format!("the interface has no bindings: {error:#}")));
    let (_, bindings) = files.iter().next().unwrap_or_else(|| fail("bindings are one file"));
    bindings.to_vec()
}

fn fail(why: &str) -> ! {
    eprintln!("{why}");
    std::process::exit(1);
}
