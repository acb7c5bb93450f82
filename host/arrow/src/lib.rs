//! Writes records as a stream of Arrow IPC, which pyarrow, polars, DuckDB and others read.
//!
//! `types` says which Arrow type a field becomes, `columns` lays the values of a column out,
//! `stream` frames the messages. The flatbuffers of the messages are generated code of Arrow's own
//! definitions, in `polars-arrow-format`. `arrow-ipc` would do all of this, but with intermediate
//! arrays in memory, and it would add 1.5 MB to the binary.

#![forbid(unsafe_code)]

mod columns;
mod stream;
mod types;

pub use stream::{StreamWriter, WriteError};
