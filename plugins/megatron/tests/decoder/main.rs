//! Tests of the decoder `megatron` with datasets that are written here.

mod splits;
mod write;
