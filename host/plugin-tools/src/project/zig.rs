//! Builds a project in Zig with its own compiler, which compiles pipemill's file in C, too.

use std::io::ErrorKind;
use std::path::Path;
use std::process::Stdio;

use super::build_error::BuildError;
use super::compiler::{compiler, run};

/// The file of the project from which the others are imported.
pub(super) const FILE: &str = "src/decoder.zig";
/// The names of the compiler: its own, and that of the package in Python's registry.
const COMPILERS: [&str; 2] = ["zig", "python-zig"];
/// The advice to install the compiler.
const INSTALL: &str = "install Zig 0.15 or later from https://ziglang.org/download, or with \
                       Python: pip install ziglang";

/// The functions that the host calls are exported by the file in C, the optional ones by that in
/// Zig. Of the latter, the linker exports all or none.
const FLAGS: [&str; 12] = [
    "build-exe",
    FILE,
    "-target",
    "wasm32-freestanding",
    "-mcpu=generic+bulk_memory+sign_ext+simd128+nontrapping_fptoint",
    // A bug in a decoder ends the stream, and makes no wrong records.
    "-OReleaseSafe",
    "-fno-entry",
    "-flto",
    "-rdynamic",
    "--stack",
    "1048576",
    "-cflags",
];
const C_FLAGS: [&str; 5] = ["-std=c11", "-O3", "-fno-sanitize=undefined", "--", "src/pipemill.c"];

/// Compiles the project to a core module. `temp_dir` is an empty folder for the result.
pub(super) fn build(folder: &Path, temp_dir: &Path) -> Result<Vec<u8>, BuildError> {
    let module = temp_dir.join("module.wasm");
    let mut zig = compiler(found(folder), folder);
    zig.args(FLAGS).args(C_FLAGS);
    zig.arg("--cache-dir").arg(temp_dir.join("cache"));
    zig.arg(format!("-femit-bin={}", module.display()));
    run(&mut zig, INSTALL)?;
    std::fs::read(&module)
        .map_err(|error| BuildError::wrong(format!("what zig has made can't be read: {error}")))
}

/// The name of the compiler that is there.
fn found(folder: &Path) -> &'static str {
    let is_there = |name: &&&str| {
        let mut zig = compiler(name, folder);
        let started = zig.arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        !started.is_err_and(|error| error.kind() == ErrorKind::NotFound)
    };
    COMPILERS.iter().find(is_there).unwrap_or(&COMPILERS[0])
}
