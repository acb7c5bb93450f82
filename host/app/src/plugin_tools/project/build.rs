//! From a project's folder to the component that a plugin is.

use std::path::Path;

use wit_component::{StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use super::template::WIT;
use super::{Language, c, python, rust};
use pipemill_decode as decode;

/// Why there is no plugin.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct BuildError {
    /// What is wrong, and what to do.
    pub message: String,
    /// Whether it is the machine's fault: no compiler. Else the sources are wrong.
    pub is_missing: bool,
}

impl BuildError {
    pub(super) fn missing(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_missing: true }
    }

    pub(super) fn wrong(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_missing: false }
    }

    /// The compiler has said why.
    pub(super) fn refused(compiler: &str) -> Self {
        let compiler = Path::new(compiler).file_name().unwrap_or_default().to_string_lossy();
        Self::wrong(format!("no plugin was made: {compiler} has refused it, see above"))
    }
}

/// Makes the component of the project in `folder`. What compilers say goes to standard error.
///
/// # Errors
/// It is no project; its compiler is missing, or refuses the sources; what it makes is no decoder.
pub fn build(folder: &Path) -> Result<Vec<u8>, BuildError> {
    let Some(language) = Language::of(folder) else {
        return Err(BuildError::wrong(format!(
            "{} is no decoder's project: it has neither Cargo.toml (Rust), nor src/*.c, nor decoder.py; \
             `pipemill plugin new NAME --lang rust` makes one",
            folder.display()
        )));
    };
    let scratch =
        tempfile::Builder::new().prefix("pipemill-build-").tempdir().map_err(|error| {
            BuildError::missing(format!("no folder for what compilers make: {error}; set TMPDIR"))
        })?;
    let scratch = scratch.path();
    match language {
        Language::Rust => wrap(&rust::build(folder)?),
        Language::C => wrap(&described(c::build(folder, scratch)?)?),
        Language::Python => python::build(folder, scratch, WIT),
    }
}

/// The module, with the world that it implements written into it.
fn described(mut module: Vec<u8>) -> Result<Vec<u8>, BuildError> {
    let mut resolve = Resolve::default();
    resolve
        .push_str("decoder.wit", WIT)
        .and_then(|package| resolve.select_world(&[package], None))
        .and_then(|world| {
            embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)
        })
        .map_err(|why| BuildError::wrong(format!("the interface can't be written: {why:#}")))?;
    Ok(module)
}

fn wrap(module: &[u8]) -> Result<Vec<u8>, BuildError> {
    decode::wrap(module).map_err(|why| {
        BuildError::wrong(format!(
            "what was compiled is not a decoder: {why:#}; a Rust crate names its decoder by \
             `pipemill_plugin::export!`, a C project has pipemill's src/pipemill.c"
        ))
    })
}
