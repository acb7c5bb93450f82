//! Builds a project in C or C++ with clang and its linker, without a libc.

use std::path::{Path, PathBuf};

use super::build_error::BuildError;
use super::compiler::{compiler, query, run};
use super::language::Language;

/// The advice to install the compiler.
const INSTALL: &str =
    "install clang and lld, its linker for WebAssembly; on Debian: apt-get install clang lld";

/// Flags of both languages: all features of the engine, warnings, and no system.
const FLAGS: [&str; 10] = [
    "--target=wasm32-unknown-unknown",
    "-O3",
    "-flto",
    "-Wall",
    "-Wextra",
    "-ffreestanding",
    "-msimd128",
    "-mbulk-memory",
    "-msign-ext",
    "-mnontrapping-fptoint",
];

/// Flags of C.
const C_FLAGS: [&str; 1] = ["-std=c11"];

/// Flags of C++. There is no runtime for exceptions and types, and none for destructors of static
/// variables, which live as long as the stream.
const CPP_FLAGS: [&str; 5] = [
    "-std=c++17",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-threadsafe-statics",
    "-fno-c++-static-destructors",
];

/// Flags of the linker: no entry point and no system. The stack comes first in memory, so that a
/// stack overflow traps and overwrites nothing.
const LINK_FLAGS: [&str; 6] = [
    "-nostdlib",
    "-Wl,--no-entry",
    "-Wl,--fatal-warnings",
    "-Wl,--lto-O3",
    "-Wl,--stack-first",
    "-Wl,-z,stack-size=1048576",
];

/// The language of the project in a folder: C++ if a file is in it. `None` if there is none in
/// either.
pub(super) fn language(folder: &Path) -> Option<Language> {
    let sources = sources(folder);
    let is_cpp = |file: &PathBuf| flags_of(file) == Some(&CPP_FLAGS[..]);
    match sources.iter().any(is_cpp) {
        true => Some(Language::Cpp),
        false => (!sources.is_empty()).then_some(Language::C),
    }
}

/// The files in C and C++ in the folder `src` of a project, sorted.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.join("src")).into_iter().flatten().flatten();
    let files = entries.map(|entry| Path::new("src").join(entry.file_name()));
    let mut files: Vec<_> = files.filter(|file| flags_of(file).is_some()).collect();
    files.sort();
    files
}

/// The flags of the language of a file; `None` if it is neither C nor C++.
fn flags_of(file: &Path) -> Option<&'static [&'static str]> {
    match file.extension()?.to_str()? {
        "c" => Some(&C_FLAGS),
        "cc" | "cpp" | "cxx" => Some(&CPP_FLAGS),
        _ => None,
    }
}

/// Compiles the files in `src` to a core module. `temp_dir` is an empty folder for the result.
pub(super) fn build(folder: &Path, temp_dir: &Path) -> Result<Vec<u8>, BuildError> {
    let linker = query(compiler("clang", folder).arg("--print-prog-name=wasm-ld"), INSTALL)?;
    // If clang finds no linker, it prints the name without a path.
    if linker.is_none_or(|path| !path.contains('/')) {
        let why = format!("clang has no `wasm-ld`, its linker for WebAssembly; {INSTALL}");
        return Err(BuildError::missing(why));
    }
    let mut objects = Vec::new();
    for (number, source) in sources(folder).iter().enumerate() {
        let object = temp_dir.join(format!("{number}.o"));
        let mut clang = compiler("clang", folder);
        clang.args(FLAGS).args(flags_of(source).unwrap_or_default());
        clang.arg("-c").arg("-o").arg(&object).arg(source);
        run(&mut clang, INSTALL)?;
        objects.push(object);
    }
    let module = temp_dir.join("module.wasm");
    let mut clang = compiler("clang", folder);
    clang.args(FLAGS).args(LINK_FLAGS).arg("-o").arg(&module).args(objects);
    run(&mut clang, INSTALL)?;
    let module = std::fs::read(&module).map_err(|error| {
        BuildError::wrong(format!("what clang has made can't be read: {error}"))
    })?;
    Ok(module)
}
