//! Reads protobuf's wire format in place: where the values of a message are, not what they mean.
//! For decoders of formats whose records are protobuf messages.
//!
//! The rules are protobuf's: unknown fields are ignored; if a field or a map key occurs twice, the
//! last one counts; a message that occurs twice is merged; lists of numbers may be packed or not;
//! groups are skipped. One rule is stricter: a known field with a wrong wire type is an error, not
//! an unknown field.

mod map;
mod numbers;
mod one_of;
mod pieces;
mod reader;

pub use map::{MessageMap, read_map_entry};
pub use numbers::{add_fixed, add_varints, append_varints, count_varints, each_varint};
pub use one_of::OneOf;
pub use pieces::Pieces;
pub use reader::{MessageReader, WireError, WireField, WireType};
