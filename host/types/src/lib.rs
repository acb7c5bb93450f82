//! Types that all crates of pipemill share: the fields of a record, positions in the input, faults.
//! This crate does no input or output and knows no sandbox.

#![forbid(unsafe_code)]

mod column;
mod fault;
mod field;
pub mod log;
mod mode;
mod position;
mod stream_info;
mod suggest;

pub use column::{ABSENT, Column};
pub use fault::{ErrorKind, Fault};
pub use field::{Field, Scalar};
pub use mode::Mode;
pub use position::Position;
pub use stream_info::StreamInfo;
pub use suggest::nearest;
