//! Builds a project in Rust with cargo, for the target wasm32-unknown-unknown.

use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use super::build_error::BuildError;
use super::compiler::{compiler, query, run};

const TARGET: &str = "wasm32-unknown-unknown";
/// The advice to install the compiler.
const INSTALL: &str = "install Rust from https://rustup.rs";

/// Compiles a package with a `cdylib` to a core module.
pub(super) fn build(folder: &Path) -> Result<Vec<u8>, BuildError> {
    let sysroot = query(compiler("rustc", folder).args(["--print", "sysroot"]), INSTALL)?;
    if let Some(sysroot) = sysroot
        && !Path::new(&sysroot).join("lib/rustlib").join(TARGET).is_dir()
    {
        let why = format!("Rust's target {TARGET} is missing; rustup target add {TARGET}");
        return Err(BuildError::missing(why));
    }
    let mut cargo = compiler("cargo", folder);
    cargo.args(["build", "--release", "--target", TARGET]);
    // Messages for people go to standard error.
    cargo.arg("--message-format=json-render-diagnostics").stdout(Stdio::piped());
    let messages = run(&mut cargo, INSTALL)?;
    let module = find_module(&String::from_utf8_lossy(&messages)).ok_or_else(|| {
        let why = "cargo has made no plugin: Cargo.toml needs \
                   `crate-type = [\"cdylib\", \"rlib\"]` in [lib]";
        BuildError::wrong(why)
    })?;
    std::fs::read(&module)
        .map_err(|error| BuildError::wrong(format!("{module} can't be read: {error}")))
}

/// The path of the last `.wasm` file in cargo's JSON messages that belongs to a `cdylib`. The last
/// one is the plugin, because cargo builds dependencies first.
fn find_module(messages: &str) -> Option<String> {
    let parsed = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let files =
        parsed.filter(|message| message["reason"] == "compiler-artifact").filter(|message| {
            let kinds = message["target"]["kind"].as_array();
            kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind == "cdylib"))
        });
    let names = files.filter_map(|message| message["filenames"].as_array().cloned()).flatten();
    let mut names = names.filter_map(|name| name.as_str().map(str::to_owned));
    names.rfind(|name| name.ends_with(".wasm"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plugin_is_found_among_all_files_that_cargo_built() {
        let messages = r#"
            {"reason":"compiler-artifact","target":{"kind":["lib"]},"filenames":["/t/libsdk.rlib"]}
            {"reason":"compiler-artifact","target":{"kind":["cdylib","rlib"]},
             "filenames":["/t/mine.wasm","/t/libmine.rlib"]}
            {"reason":"build-finished","success":true}"#;
        let lines = messages.replace("},\n             ", "},");
        assert_eq!(find_module(&lines).as_deref(), Some("/t/mine.wasm"));
        assert_eq!(find_module("warning: no JSON\n{}"), None);
    }
}
