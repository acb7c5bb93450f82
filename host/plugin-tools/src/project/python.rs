//! Builds a project in Python with componentize-py, which puts the interpreter and the project's
//! modules into one component.

use std::io::Write;
use std::path::{Path, PathBuf};

use pipemill_decode::{DEFINITIONS, INTERFACE, INTERFACE_VERSION};

use super::build_error::BuildError;
use super::compiler::{compiler, run};

/// What a decoder in Python imports and exports: all but the window, whose memory Python can't see.
const WORLD: &str = "package pipemill:python;
world decoder-plugin {
  import pipemill:decoder/host@0.1.0;
  import pipemill:decoder/blocks@0.3.0;
  import pipemill:decoder/columns@0.3.0;
  export pipemill:decoder/decoder@0.1.0;
  export pipemill:decoder/plan@0.3.0;
  export pipemill:decoder/preparing@0.3.0;
  export pipemill:decoder/rest@0.3.0;
  export pipemill:decoder/carry@0.3.0;
}
";

/// The module that the author writes.
pub(super) const FILE: &str = "decoder.py";
/// The module in the folder `vendor` that implements the interface.
const GUEST: &str = "pipemill_guest";
const TOOL: &str = "componentize-py";
/// The advice to install the compiler.
const INSTALL: &str = "with Python 3.10 or later: python3 -m venv .venv && .venv/bin/pip install \
                       componentize-py~=0.25; it is looked for in the project's .venv and on PATH";

/// Builds a component. `scratch` is an empty folder for the tool.
pub(super) fn build(folder: &Path, temp_dir: &Path) -> Result<Vec<u8>, BuildError> {
    let failed = |what: &str, error: std::io::Error| {
        BuildError::missing(format!(
            "{what}: {error}; see that {} can be written",
            temp_dir.display()
        ))
    };
    let (interface, component) = (temp_dir.join("wit"), temp_dir.join("component.wasm"));
    write_interface(&interface).map_err(|error| failed("no file can be written", error))?;
    let mut python = compiler(tool(folder), folder);
    python.arg("-q").arg("-d").arg(&interface).args(["-w", "decoder-plugin"]);
    // By default the module would have the interface's name, `decoder`, which is the author's
    // module.
    let name = format!("{INTERFACE}/decoder@{INTERFACE_VERSION}={GUEST}");
    python.args(["--export-interface-name", &name]);
    // A decoder has no access to the system: calls into WASI trap.
    python.args(["componentize", "--stub-wasi", "-p", ".", "-p", "vendor", "-o"]);
    python.arg(&component).arg(GUEST);
    // An error in the author's module prints a Python traceback. The traceback of the tool itself
    // is of no use.
    python.env("RUST_BACKTRACE", "0").env("PYTHONDONTWRITEBYTECODE", "1");
    let output = run(&mut python, INSTALL)?;
    #[expect(clippy::disallowed_methods, reason = "the output of the author's own compiler")]
    // If the terminal is closed there is nothing to do.
    let _ = std::io::stderr().write_all(&output);
    std::fs::read(&component)
        .map_err(|error| failed("what componentize-py has made can't be read", error))
}

/// Writes the definition of the interface into a new folder: each version into one of its own, as
/// the tool wants them.
fn write_interface(folder: &Path) -> std::io::Result<()> {
    for (file, definition) in DEFINITIONS {
        let package = folder.join("deps").join(file.trim_end_matches(".wit"));
        std::fs::create_dir_all(&package)?;
        std::fs::write(package.join(file), definition)?;
    }
    std::fs::write(folder.join("world.wit"), WORLD)
}

/// The path of componentize-py: in the project's `.venv` if it exists there, otherwise on PATH.
fn tool(folder: &Path) -> PathBuf {
    let own = folder.join(".venv/bin").join(TOOL);
    // The path is absolute, because the tool is started in another folder.
    std::path::absolute(&own).ok().filter(|own| own.is_file()).unwrap_or_else(|| TOOL.into())
}
