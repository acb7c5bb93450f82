//! Tests of the recordio decoder: known encodings, each error, any split, any damage, real files.

mod need;
mod other_formats;
mod real_files;
mod splits;
mod vectors;
mod write;
