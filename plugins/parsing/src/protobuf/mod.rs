//! Protobuf's wire format, read in place: where the values of a message lie, not what they mean. For
//! decoders of formats whose records are protobuf messages.
//!
//! As protobuf has it: unknown fields are passed over; of a field or a map key that stands twice, the
//! last one counts; messages that stand twice are merged; lists of numbers may be packed or not.
//! Stricter than protobuf: a known field of a wrong wire type is an error, not an unknown field, and
//! groups are refused.

mod map;
mod numbers;
mod one_of;
mod pieces;
mod reader;

pub use map::{Map, entry as map_entry};
pub use numbers::{add_fixed, add_varints, append_varints, count_varints, each_varint};
pub use one_of::OneOf;
pub use pieces::Pieces;
pub use reader::{Entry, Fault, Reader, Wire};
