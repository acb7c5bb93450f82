//! Builds a project in C with clang and its linker, without a libc.

use std::path::{Path, PathBuf};

use super::build_error::BuildError;
use super::compiler::{compiler, query, run};

/// How to install the compiler.
const INSTALL: &str =
    "install clang and lld, its linker for WebAssembly; on Debian: apt-get install clang lld";

/// All features of the engine, warnings, no entry point and no system. The stack comes first in
/// memory, so that a stack overflow traps and overwrites nothing.
const FLAGS: [&str; 17] = [
    "--target=wasm32-unknown-unknown",
    "-std=c11",
    "-O3",
    "-flto",
    "-Wall",
    "-Wextra",
    "-ffreestanding",
    "-nostdlib",
    "-msimd128",
    "-mbulk-memory",
    "-msign-ext",
    "-mnontrapping-fptoint",
    "-Wl,--no-entry",
    "-Wl,--fatal-warnings",
    "-Wl,--lto-O3",
    "-Wl,--stack-first",
    "-Wl,-z,stack-size=1048576",
];

/// The C files in the folder `src` of a project, sorted.
pub(super) fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.join("src")).into_iter().flatten().flatten();
    let files = entries.map(|entry| Path::new("src").join(entry.file_name()));
    let mut files: Vec<_> = files.filter(|file| file.extension() == Some("c".as_ref())).collect();
    files.sort();
    files
}

/// Compiles the files in `src` to a core module. `scratch` is an empty folder for it.
pub(super) fn build(folder: &Path, temp_dir: &Path) -> Result<Vec<u8>, BuildError> {
    let linker = query(compiler("clang", folder).arg("--print-prog-name=wasm-ld"), INSTALL)?;
    // If clang finds no linker, it prints the name without a path.
    if linker.is_none_or(|path| !path.contains('/')) {
        let why = format!("clang has no `wasm-ld`, its linker for WebAssembly; {INSTALL}");
        return Err(BuildError::missing(why));
    }
    let module = temp_dir.join("module.wasm");
    let mut clang = compiler("clang", folder);
    clang.args(FLAGS).arg("-o").arg(&module).args(sources(folder));
    run(&mut clang, INSTALL)?;
    let module = std::fs::read(&module).map_err(|error| {
        BuildError::wrong(format!("what clang has made can't be read: {error}"))
    })?;
    Ok(module)
}
