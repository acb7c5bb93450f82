//! The messages for invalid files, blocks and records.

use std::fmt;

use crate::header::SYNC;
use crate::layout::Layout;
use crate::reader::Problem;

/// Says what was expected and what was found. [`Problem::Limit`] depends on where a value is, so
/// its callers describe it.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit => write!(f, "expected the end of a value, found a longer one"),
            Self::Varint(bits) => {
                write!(f, "expected a varint of at most {bits} bits, found a longer one")
            }
            Self::Negative(found) => write!(f, "expected a size from 0 on, found {found}"),
            Self::Boolean(found) => {
                write!(f, "expected a boolean, 00 or 01, found byte {found:02x}")
            }
            Self::Branch { found, branches: 1 } => {
                write!(f, "expected branch 0 of a union, found {found}")
            }
            Self::Branch { found, branches } => {
                let last = branches - 1;
                write!(f, "expected a branch of a union, 0 to {last}, found {found}")
            }
            Self::Symbol { found, symbols } => {
                let last = symbols - 1;
                write!(f, "expected a symbol of an enum, 0 to {last}, found {found}")
            }
            Self::Utf8(found) => write!(f, "expected UTF-8, found byte {found:02x}"),
            Self::BlockSize { expected, found } => write!(
                f,
                "expected items of {expected} bytes, as their block says, found {found} bytes"
            ),
            Self::NullItem => write!(
                f,
                "expected a value for each item of the array, found null; leave the field out by \
                 the option `fields`, or write the file without it (Spark: `array_compact`)"
            ),
            Self::Depth => write!(f, "found values that are nested too deep to be skipped"),
        }
    }
}

/// A record of a block: its number from 1, and the number that the block has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) record: u64,
    pub(crate) records: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {} of the block's {}", self.record, self.records)
    }
}

/// The end before which a record must end.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Limit {
    /// The end of the block's bytes.
    Block,
    /// `max_record`, in bytes.
    MaxRecord(u64),
}

/// The message for an invalid record.
#[cold]
pub(crate) fn bad_record(
    place: Place,
    layout: &Layout,
    step: usize,
    at: usize,
    problem: Problem,
    limit: Limit,
) -> String {
    let field = &layout.names[step];
    match (problem, limit) {
        (Problem::Limit, Limit::Block) => {
            format!(
                "{place}, at +{at}, field `{field}`: its value goes on after the end of the block"
            )
        }
        (Problem::Limit, Limit::MaxRecord(max)) => format!(
            "{place} is larger than max_record ({max} bytes), which its field `{field}` exceeds; raise \
             max_record if records may be that large"
        ),
        (problem, _) => format!("{place}, at +{at}, field `{field}`: {problem}"),
    }
}

/// The message for the end of the input inside a block.
#[cold]
pub(crate) fn cut_short(place: Place) -> String {
    format!("the file ends inside a block, in {place} or after it; it was cut short")
}

/// The message for a block without the sync marker after its bytes.
#[cold]
pub(crate) fn no_sync(expected: &[u8; SYNC], found: &[u8]) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    format!(
        "expected the file's sync marker {} after a block, found {}; the block's size or the marker is \
         damaged",
        hex(expected),
        hex(found)
    )
}

/// The message for records whose size differs from their block's.
#[cold]
pub(crate) fn bytes_after_records(records: u64) -> String {
    format!("expected the end of a block after its {records} records, found more bytes")
}

/// The message for a block whose bytes end before its records do.
#[cold]
pub(crate) fn records_missing(place: Place) -> String {
    format!("expected {place}, found the end of the block")
}

/// The message for the end of the input before a sync marker.
#[cold]
pub(crate) fn ends_before_sync(found: usize) -> String {
    format!(
        "expected a sync marker of {SYNC} bytes after a block, found the end of the file after {found} \
         bytes; it was cut short"
    )
}

/// The message for a compressed block that is too large to be held.
#[cold]
pub(crate) fn large_block(size: u64, max: u64) -> String {
    format!(
        "a compressed block of {size} bytes is larger than max_record ({max} bytes); raise max_record if \
         the file has such blocks"
    )
}

/// The message for a snappy block that is too small for its checksum.
#[cold]
pub(crate) fn no_checksum(size: usize) -> String {
    format!("expected a snappy block, which ends with a checksum of 4 bytes, found {size} bytes")
}
