//! Tests of the tf-example decoder: options, each error, any split, any damage, TensorFlow's own
//! files.

mod errors;
mod lists;
mod options;
mod other_formats;
mod real_files;
mod sequence;
mod splits;
mod write;
