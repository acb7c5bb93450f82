//! Rust: cargo, for the target that knows of no system.

use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use super::BuildError;
use super::compiler::{ask, compiler, run};

const TARGET: &str = "wasm32-unknown-unknown";
const CARGO: &str = "install Rust from https://rustup.rs";

/// The core module that cargo makes of a package with a `cdylib`.
pub(super) fn build(folder: &Path) -> Result<Vec<u8>, BuildError> {
    let sysroot = ask(compiler("rustc", folder).args(["--print", "sysroot"]), CARGO)?;
    if let Some(sysroot) = sysroot
        && !Path::new(&sysroot).join("lib/rustlib").join(TARGET).is_dir()
    {
        let why = format!("Rust's target {TARGET} is missing; rustup target add {TARGET}");
        return Err(BuildError::missing(why));
    }
    let mut cargo = compiler("cargo", folder);
    cargo.args(["build", "--release", "--target", TARGET]);
    // What it says to a person goes to standard error, as always.
    cargo.arg("--message-format=json-render-diagnostics").stdout(Stdio::piped());
    let said = run(&mut cargo, CARGO)?;
    let module = artifact(&String::from_utf8_lossy(&said)).ok_or_else(|| {
        let why = "cargo has made no plugin: Cargo.toml needs `crate-type = [\"cdylib\", \"rlib\"]` \
                   in [lib]";
        BuildError::wrong(why)
    })?;
    std::fs::read(&module)
        .map_err(|error| BuildError::wrong(format!("{module} can't be read: {error}")))
}

/// The file that the last `cdylib` was made of: dependencies come before what needs them.
fn artifact(said: &str) -> Option<String> {
    let messages = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let files =
        messages.filter(|message| message["reason"] == "compiler-artifact").filter(|message| {
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
    fn the_plugin_is_found_among_all_that_cargo_has_made() {
        let said = r#"
            {"reason":"compiler-artifact","target":{"kind":["lib"]},"filenames":["/t/libsdk.rlib"]}
            {"reason":"compiler-artifact","target":{"kind":["cdylib","rlib"]},
             "filenames":["/t/mine.wasm","/t/libmine.rlib"]}
            {"reason":"build-finished","success":true}"#;
        let lines = said.replace("},\n             ", "},");
        assert_eq!(artifact(&lines).as_deref(), Some("/t/mine.wasm"));
        assert_eq!(artifact("warning: no JSON\n{}"), None);
    }
}
