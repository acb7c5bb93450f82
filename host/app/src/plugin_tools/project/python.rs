//! Python: componentize-py, which puts the interpreter and the project's modules into one component.

use std::path::{Path, PathBuf};

use super::BuildError;
use super::compiler::{compiler, run};
use pipemill_decode::{INTERFACE, INTERFACE_VERSION};

/// The author's module.
pub(super) const FILE: &str = "decoder.py";
/// The module that speaks the interface, in the folder `vendor`.
const GUEST: &str = "pipemill_guest";
const TOOL: &str = "componentize-py";
const INSTALL: &str = "with Python 3.10 or later: python3 -m venv .venv && .venv/bin/pip install \
                       componentize-py~=0.25; it is looked for in the project's .venv and on PATH";

/// The component that componentize-py makes. `scratch` is a folder for it.
pub(super) fn build(folder: &Path, scratch: &Path, wit: &str) -> Result<Vec<u8>, BuildError> {
    let failed = |what: &str, error: std::io::Error| {
        BuildError::missing(format!(
            "{what}: {error}; see that {} can be written",
            scratch.display()
        ))
    };
    let (interface, component) = (scratch.join("decoder.wit"), scratch.join("component.wasm"));
    std::fs::write(&interface, wit).map_err(|error| failed("no file can be written", error))?;
    let mut python = compiler(tool(folder), folder);
    python.arg("-q").arg("-d").arg(&interface).args(["-w", "decoder-plugin"]);
    // Else it takes the interface's own name for a module's, and that is the author's.
    let name = format!("{INTERFACE}/decoder@{INTERFACE_VERSION}={GUEST}");
    python.args(["--export-interface-name", &name]);
    // A decoder is given no system: what asks for one traps.
    python.args(["componentize", "--stub-wasi", "-p", ".", "-p", "vendor", "-o"]);
    python.arg(&component).arg(GUEST);
    // An error in the author's module is a traceback of its own; that of the tool is of no use.
    python.env("RUST_BACKTRACE", "0").env("PYTHONDONTWRITEBYTECODE", "1");
    let said = run(&mut python, INSTALL)?;
    eprint!("{}", String::from_utf8_lossy(&said));
    std::fs::read(&component)
        .map_err(|error| failed("what componentize-py has made can't be read", error))
}

/// The project's own, or else the one on PATH.
fn tool(folder: &Path) -> PathBuf {
    let own = folder.join(".venv/bin").join(TOOL);
    // Absolute: it is started in another folder.
    std::path::absolute(&own).ok().filter(|own| own.is_file()).unwrap_or_else(|| TOOL.into())
}
