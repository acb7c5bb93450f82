//! The languages that a decoder's project can be written in.

use std::path::Path;

use super::{c, go, python, zig};

/// The language of a decoder's project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Language {
    /// Rust: the fastest to run, with tests outside of the sandbox.
    Rust,
    /// C: as fast; no libc.
    C,
    /// C++: as C; no exceptions, no standard library.
    Cpp,
    /// Zig: as fast.
    Zig,
    /// Go: with its runtime; slower.
    Go,
    /// Python: for prototypes; slow, and large.
    Python,
}

impl Language {
    /// The language of the project in `folder`, recognised by its files; `None` if the folder is
    /// not a decoder's project.
    pub fn of(folder: &Path) -> Option<Self> {
        if folder.join("Cargo.toml").is_file() {
            Some(Self::Rust)
        } else if folder.join(python::FILE).is_file() {
            Some(Self::Python)
        } else if folder.join(go::FILE).is_file() {
            Some(Self::Go)
        } else if folder.join(zig::FILE).is_file() {
            Some(Self::Zig)
        } else {
            c::language(folder)
        }
    }

    /// The language's name for a message.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rust => "Rust",
            Self::C => "C",
            Self::Cpp => "C++",
            Self::Zig => "Zig",
            Self::Go => "Go",
            Self::Python => "Python",
        }
    }

    /// The file of a new project that its author edits, relative to the project's folder.
    pub fn main_file(self) -> &'static str {
        match self {
            Self::Rust => "src/lib.rs",
            Self::C => "src/decoder.c",
            Self::Cpp => "src/decoder.cpp",
            Self::Zig => zig::FILE,
            Self::Go => "decoder.go",
            Self::Python => python::FILE,
        }
    }
}
