//! Builds a plugin from a project's folder.

use std::path::Path;

use pipemill_decode::{self as decode, WINDOW};
use wasmparser::{Parser, Payload};
use wit_component::{StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use super::build_error::BuildError;
use super::language::Language;
use super::template::{WINDOW_WIT, WIT};
use super::{c, facts, python, rust};

/// Builds the project in `folder`, and returns its component. The messages of compilers go to
/// standard error.
///
/// # Errors
/// The folder is not a project, its compiler is missing or fails, or the result is not a decoder.
pub fn build(folder: &Path) -> Result<Vec<u8>, BuildError> {
    let Some(language) = Language::of(folder) else {
        return Err(BuildError::wrong(format!(
            "{} is no decoder's project: it has neither Cargo.toml (Rust), nor src/*.c or \
             src/*.cpp, nor decoder.py; `pipemill plugin new NAME --lang rust` makes one",
            folder.display()
        )));
    };
    let temp_dir =
        tempfile::Builder::new().prefix("pipemill-build-").tempdir().map_err(|error| {
            BuildError::missing(format!("no folder for what compilers make: {error}; set TMPDIR"))
        })?;
    let temp_dir = temp_dir.path();
    let mut component = match language {
        Language::Rust => wrap(&rust::build(folder)?),
        Language::C => wrap(&with_interface(c::build(folder, temp_dir)?)?),
        Language::Python => python::build(folder, temp_dir, WIT),
    }?;
    facts::add(&mut component, folder, language)?;
    Ok(component)
}

/// Adds the section to the module that describes the interface it implements: version 0.2 if it
/// exports the window, otherwise version 0.1.
fn with_interface(mut module: Vec<u8>) -> Result<Vec<u8>, BuildError> {
    let mut resolve = Resolve::default();
    resolve
        .push_str("decoder.wit", WIT)
        .and_then(|first| {
            let second = resolve.push_str("window.wit", WINDOW_WIT)?;
            let package = if exports_window(&module) { second } else { first };
            let world = resolve.select_world(&[package], None)?;
            embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)
        })
        .map_err(|why| BuildError::wrong(format!("the interface can't be written: {why:#}")))?;
    Ok(module)
}

/// Whether a core module exports functions of the window.
fn exports_window(module: &[u8]) -> bool {
    let mut payloads = Parser::new(0).parse_all(module).map_while(Result::ok);
    payloads.any(|payload| match payload {
        Payload::ExportSection(exports) => exports
            .into_iter()
            .map_while(Result::ok)
            .any(|export| export.name.starts_with(&format!("{WINDOW}#"))),
        _ => false,
    })
}

/// Makes a component of the module.
fn wrap(module: &[u8]) -> Result<Vec<u8>, BuildError> {
    decode::wrap(module).map_err(|why| {
        BuildError::wrong(format!(
            "what was compiled is not a decoder: {why:#}; a Rust crate names its decoder by \
             `pipemill_plugin::export!`, a C project has pipemill's src/pipemill.c"
        ))
    })
}
