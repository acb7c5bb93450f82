//! C: clang and its linker, without a libc. What the module implements is written into it here.

use std::path::{Path, PathBuf};

use super::BuildError;
use super::compiler::{ask, compiler, run};

const CLANG: &str =
    "install clang and lld, its linker for WebAssembly; on Debian: apt-get install clang lld";

/// Vectors, bulk memory and what else the engine has; warnings; no entry point and no system. The
/// stack lies below all else, so that one too deep traps instead of writing over something.
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

/// The sources of a project, sorted.
pub(super) fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.join("src")).into_iter().flatten().flatten();
    let files = entries.map(|entry| Path::new("src").join(entry.file_name()));
    let mut files: Vec<_> = files.filter(|file| file.extension() == Some("c".as_ref())).collect();
    files.sort();
    files
}

/// The core module that clang makes of the files in `src`. `scratch` is a folder for it.
pub(super) fn build(folder: &Path, scratch: &Path) -> Result<Vec<u8>, BuildError> {
    let linker = ask(compiler("clang", folder).arg("--print-prog-name=wasm-ld"), CLANG)?;
    // Where it finds none, it answers with the bare name.
    if linker.is_none_or(|path| !path.contains('/')) {
        let why = format!("clang has no `wasm-ld`, its linker for WebAssembly; {CLANG}");
        return Err(BuildError::missing(why));
    }
    let module = scratch.join("module.wasm");
    let mut clang = compiler("clang", folder);
    clang.args(FLAGS).arg("-o").arg(&module).args(sources(folder));
    run(&mut clang, CLANG)?;
    let module = std::fs::read(&module).map_err(|error| {
        BuildError::wrong(format!("what clang has made can't be read: {error}"))
    })?;
    Ok(module)
}
