//! Tests of the length-prefixed decoder: each encoding of a length, each error, any split, any
//! bytes.

mod errors;
mod need;
mod other_formats;
mod real_files;
mod splits;
mod write;
