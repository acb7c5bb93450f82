//! Offsets and lengths of one field's values, for all records of a batch or of a decode call.

/// Offset of a field that a record does not have. Its length is 0.
pub const ABSENT: u32 = u32::MAX;

/// Offsets and lengths of one field, one entry per record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    /// Offset in bytes from the start of the records' memory; [`ABSENT`] if a record has no such
    /// field.
    pub offsets: Vec<u32>,
    /// Length in bytes; 0 if a record has no such field.
    pub lengths: Vec<u32>,
}
