//! The plan of an object: which of its bytes a decoder is shown.

use std::ops::Range;

/// Bytes of an object, or of one of its companions. A range is of the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanRange {
    /// 0 for the object; the number of a companion, from 1, otherwise.
    pub of: u32,
    /// Places of the bytes.
    pub bytes: Range<u64>,
}

impl From<Range<u64>> for PlanRange {
    fn from(bytes: Range<u64>) -> Self {
        Self { of: 0, bytes }
    }
}

/// Where a companion of an object lies: see [`Decoder::companions`](crate::Decoder::companions).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Companion {
    /// The end of the object's name, such as `.bin`.
    pub object: &'static str,
    /// The end of its companion's name, such as `.idx`.
    pub companion: &'static str,
}

/// Bytes that the host has read for a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// 0 for the object; the number of a companion, from 1, otherwise.
    pub of: u32,
    /// Place of the first one in it.
    pub offset: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// The next step of a plan: see [`Decoder::plan`](crate::Decoder::plan).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Read these bytes, and call `plan` again: at most 64 ranges in a step, 32 MiB
    /// in all steps of an object, and 32 steps.
    Read(Vec<PlanRange>),
    /// The plan. It may be empty: then the object has no records. All contexts of it, with 16 bytes
    /// for each range and 64 for each part, have at most 8 MiB.
    Parts(Vec<Part>),
    /// Show the object as without a plan.
    Whole,
}

/// Bytes that a stream is shown one after the other: first the context, then those of the ranges.
/// A stream may begin at any part, so the context has all that decoding needs to know of the
/// directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Part {
    /// Bytes of the decoder's own, with a mark by which it knows them.
    pub context: Vec<u8>,
    /// Bytes of the object and its companions, in the order in which they are shown.
    pub ranges: Vec<PlanRange>,
    /// How many records `decode` emits of these bytes, if the directory says it. `None`: it is not
    /// known. The host counts them: another number is an error. With a count, `decode` consumes all
    /// bytes of the part, and of those before it, when it is shown them and no byte after them.
    pub records: Option<u64>,
}
