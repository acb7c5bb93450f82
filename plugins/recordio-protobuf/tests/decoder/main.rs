//! Tests of the recordio-protobuf decoder: SageMaker's own files, any split, any damage, each error,
//! options.

mod errors;
mod learning;
mod options;
mod real_files;
mod splits;
mod write;
