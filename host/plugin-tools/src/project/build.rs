//! Builds a plugin from a project's folder.

use std::path::Path;

use pipemill_decode as decode;

use super::build_error::BuildError;
use super::language::Language;
use super::{c, facts, go, python, rust, wasi, zig};

/// Builds the project in `folder`, and returns its component. The messages of compilers go to
/// standard error.
///
/// # Errors
/// The folder is not a project, its compiler is missing or fails, or the result is not a decoder.
pub fn build(folder: &Path) -> Result<Vec<u8>, BuildError> {
    let Some(language) = Language::of(folder) else {
        return Err(BuildError::wrong(format!(
            "{} is no decoder's project: it has neither Cargo.toml (Rust), nor src/*.c or \
             src/*.cpp, nor src/decoder.zig, nor go.mod, nor decoder.py; `pipemill plugin new NAME \
             --lang rust` makes one",
            folder.display()
        )));
    };
    let temp_dir =
        tempfile::Builder::new().prefix("pipemill-build-").tempdir().map_err(|error| {
            BuildError::missing(format!("no folder for what compilers make: {error}; set TMPDIR"))
        })?;
    let temp_dir = temp_dir.path();
    let mut component = match language {
        Language::Rust => component(decode::wrap(&rust::build(folder)?)),
        Language::C | Language::Cpp => component(decode::wrap(&c::build(folder, temp_dir)?)),
        Language::Zig => component(decode::wrap(&zig::build(folder, temp_dir)?)),
        Language::Go => component(wasi::wrap(&go::build(folder, temp_dir)?)),
        Language::Python => python::build(folder, temp_dir),
    }?;
    facts::add(&mut component, folder, language)?;
    Ok(component)
}

/// The component that was made of a module.
fn component(made: anyhow::Result<Vec<u8>>) -> Result<Vec<u8>, BuildError> {
    made.map_err(|why| {
        BuildError::wrong(format!(
            "what was compiled is not a decoder: {why:#}; a Rust crate names its decoder by \
             `pipemill_plugin::export!`, a project in another language has pipemill's files as \
             `pipemill plugin new` makes them"
        ))
    })
}
