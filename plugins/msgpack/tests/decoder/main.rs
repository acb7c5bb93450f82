//! Tests of the msgpack decoder.

mod model;
mod write;
