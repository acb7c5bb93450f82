//! The types that every crate of pipemill speaks: what a record looks like, where it stands in the input, and what
//! can go wrong. No input, no output, no sandbox.

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
