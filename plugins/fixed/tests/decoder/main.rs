//! Tests of the fixed decoder: options, header, any split, files by other writers.

mod options;
mod real_files;
mod splits;
