//! Parsing that several of the built-in decoders share: blocks of rows, columns, decimals,
//! encodings, field specs, foreign objects, framings, JSON, trees of JSON, newlines, NumPy's arrays,
//! numbers, paths, pointers and protobuf, one module each. It is neither a decoder nor a public API:
//! other plugins use `pipemill-plugin`.
//!
//! It is a separate crate because a decoder cannot be the library of another one: both would export
//! the interface. A decoder's .wasm holds only the modules that it uses.

#![forbid(unsafe_code)]

pub mod blocks;
pub mod columns;
pub mod decimal;
pub mod encoding;
pub mod field_spec;
pub mod foreign;
pub mod framing;
pub mod head;
pub mod json;
pub mod json_tree;
pub mod newlines;
pub mod npy;
pub mod numbers;
pub mod paths;
pub mod pointers;
pub mod protobuf;
pub mod testing;

mod shown;

pub use shown::shown;
