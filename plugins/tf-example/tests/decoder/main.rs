//! Tests of the tf-example decoder: TensorFlow's own files, any split, any damage, each error, options.

mod errors;
mod options;
mod real_files;
mod splits;
mod write;
