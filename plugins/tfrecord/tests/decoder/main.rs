//! Tests of the tfrecord decoder: known encodings, each error, any split, any damage, real files.

mod need;
mod other_formats;
mod real_files;
mod search;
mod splits;
mod vectors;
