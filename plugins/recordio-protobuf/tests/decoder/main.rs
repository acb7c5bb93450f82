//! Tests of the recordio-protobuf decoder: options, each error, any split, any damage, SageMaker's
//! own files.

mod errors;
mod learning;
mod options;
mod other_formats;
mod real_files;
mod splits;
mod write;
