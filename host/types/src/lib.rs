//! Types that all crates of pipemill share: the fields of a record, positions in the input, faults,
//! text for people.
//! This crate does no input or output and knows no sandbox.

#![forbid(unsafe_code)]

mod accepted;
mod batch_memory;
mod batch_position;
mod batch_size;
mod chunk_memory;
mod column;
mod fault;
mod field;
mod identity;
pub mod json;
mod list;
pub mod log;
mod memory_budget;
mod mode;
mod position;
mod printable;
pub mod record_json;
mod stream_info;
mod suggest;

pub use accepted::Accepted;
pub use batch_memory::BatchMemory;
pub use batch_position::BatchPosition;
pub use batch_size::{BatchAcross, BatchSize, Tail};
pub use chunk_memory::{ChunkMemory, HUGE_PAGE, SharedFile, SharedPart};
pub use column::{ABSENT, Column};
pub use fault::{ErrorKind, Fault};
pub use field::{Field, Scalar, category};
pub use identity::{
    ListIdentity, ObjectIdentity, is_same_content, is_same_identity, is_same_list, split_identity,
};
pub use list::{list_elements, list_problem};
pub use memory_budget::{MemoryBudget, OverBudget, TakenMemory};
pub use mode::Mode;
pub use position::Position;
pub use printable::{Printable, is_hidden, printable};
pub use stream_info::{ObjectFacts, StreamInfo, restart_extension, schema_extension};
pub use suggest::nearest;
