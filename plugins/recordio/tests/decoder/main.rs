//! Tests of the recordio decoder: the format to the letter, any split, any damage, real files.

mod need;
mod real_files;
mod splits;
mod vectors;
mod write;
