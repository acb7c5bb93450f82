//! Types that all crates of pipemill share: the fields of a record, positions in the input, faults,
//! text for people.
//! This crate does no input or output and knows no sandbox.
//!
//! - `accepted`: the differences from a state that the user accepts.
//! - `added_field`: fields that the host adds to each record on request.
//! - `batch_memory`: memory that is filled with a batch.
//! - `batch_position`: the position of a batch in its channel: where a program that received the
//!   batch can resume.
//! - `batch_size`: the number of records of each batch, and what happens to the last records if
//!   they don't fill one.
//! - `chunk_memory`: memory for chunks, and the file from which other processes may map it.
//! - `column`: offsets and lengths of one field's values, for all records of a batch or of a decode
//!   call.
//! - `companions`: the objects that lie beside an object, and are decoded with it.
//! - `fault`: faults of a stream, without their position: the channel knows the position and adds
//!   it.
//! - `field`: the fields of a record: name, element type, shape and meaning.
//! - `identity`: the identity of a channel's input: the text that travels with each batch as the
//!   identity of its object, and that a state keeps.
//! - `input_position`: the positions of the inputs of a mix.
//! - `json`: JSON that a person may look at in a terminal: the characters that are
//!   [hidden](is_hidden) are escaped in strings, so the text stays what it was.
//! - `list`: the value of a field that is a list of bytes or text: a table of offsets, then the
//!   elements.
//! - `log`: log records with fields, through the `log` facade.
//! - `memory_budget`: the memory budget of a channel: each part has a limit, and bytes are taken
//!   before they are allocated.
//! - `mode`: how the batches of a channel are divided among its consumers.
//! - `partition`: fields whose values are in the names of folders, such as `date=2024-01-01`.
//! - `plan_parts`: the parts of an object's plan, and the numbers of their records.
//! - `position`: positions in a channel's input, for messages and logs.
//! - `printable`: text for people: one line without control characters and invisible characters.
//! - `record_json`: prints a field's value as JSON: text as a string, numbers as numbers or nested
//!   arrays, bytes as `{"base64":…}`.
//! - `stream_info`: the facts of an object that its decoder gets before it decodes it.
//! - `suggest`: finds the known name that is most similar to an unknown one, for "did you mean"
//!   messages.
//! - `trust`: the rule for users and folders that are trusted.

#![forbid(unsafe_code)]

mod accepted;
mod added_field;
mod batch_memory;
mod batch_position;
mod batch_size;
mod chunk_memory;
mod column;
mod companions;
mod fault;
mod field;
mod identity;
mod input_position;
pub mod json;
mod list;
pub mod log;
mod memory_budget;
mod mode;
mod partition;
mod plan_parts;
mod position;
mod printable;
pub mod record_json;
mod stream_info;
mod suggest;
pub mod trust;

pub use accepted::Accepted;
pub use added_field::{AddedField, AddedValue};
pub use batch_memory::{BatchMemory, VIEW_BYTES};
pub use batch_position::BatchPosition;
pub use batch_size::{BatchAcross, BatchSize, Tail};
pub use chunk_memory::{ChunkMemory, HUGE_PAGE, SharedFile, SharedPart};
pub use column::{ABSENT, Column, Even, remove_ranges};
pub use companions::{CompanionRule, Companions, MAX_COMPANIONS};
pub use fault::{ErrorKind, Fault};
pub use field::{Field, Scalar, category};
pub use identity::{
    ListIdentity, ObjectIdentity, has_saved, is_same_content, is_same_identity, is_same_list,
    saved_in, split_companions, split_identity, with_companions, with_saved,
};
pub use input_position::{InputPosition, InputPositions};
pub use list::{list_elements, list_problem};
pub use memory_budget::{MemoryBudget, MemoryLimits, MemoryPart, OverBudget, TakenMemory};
pub use mode::Mode;
pub use partition::Partition;
pub use plan_parts::{PlanParts, PlannedPart};
pub use position::Position;
pub use printable::{Printable, is_hidden, printable};
pub use stream_info::{
    ObjectFacts, StreamInfo, companions_extension, planned_extension, restart_extension,
    schema_extension, schema_extension_of,
};
pub use suggest::nearest;
