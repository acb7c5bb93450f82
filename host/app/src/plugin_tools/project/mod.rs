//! A decoder's project: a folder with sources in one of three languages, of which one plugin is made.
//!
//! `template` is what a new one holds, `name` what it may be called, `build` makes the plugin; `rust`,
//! `c` and `python` each know one compiler.

mod build;
mod c;
mod compiler;
mod name;
mod python;
mod rust;
mod template;

use std::path::Path;

pub use build::{BuildError, build};
pub use name::refusal_of_name;
pub use template::{Sdk, template};

/// A language that decoders are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Language {
    /// The fastest to run, with tests outside of the sandbox.
    Rust,
    /// As fast; no libc.
    C,
    /// For prototypes: slow, and large.
    Python,
}

impl Language {
    /// The language of a folder, by the file that each has; `None` if it is no decoder's project.
    pub fn of(folder: &Path) -> Option<Self> {
        if folder.join("Cargo.toml").is_file() {
            Some(Self::Rust)
        } else if folder.join(python::FILE).is_file() {
            Some(Self::Python)
        } else if !c::sources(folder).is_empty() {
            Some(Self::C)
        } else {
            None
        }
    }

    /// Its name, for a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rust => "Rust",
            Self::C => "C",
            Self::Python => "Python",
        }
    }

    /// The file that its author changes.
    pub fn main_file(self) -> &'static str {
        match self {
            Self::Rust => "src/lib.rs",
            Self::C => "src/decoder.c",
            Self::Python => python::FILE,
        }
    }
}
