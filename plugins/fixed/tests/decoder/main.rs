//! Tests of the fixed decoder: options, header, any split, files by other writers.

mod options;
mod other_formats;
mod real_files;
mod splits;
