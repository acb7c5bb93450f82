//! Tests of the fixed decoder: the options, the header, any split, files of other writers.

mod options;
mod real_files;
mod splits;
