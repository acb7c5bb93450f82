//! Where the bytes of one field lie, for all records of a batch or of a call.

/// The offset of an absent field; its length is 0.
pub const ABSENT: u32 = u32::MAX;

/// One field of many records: where its bytes lie in the memory that belongs to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    /// Bytes from the start of that memory, one offset a record; [`ABSENT`] for an absent field.
    pub offsets: Vec<u32>,
    /// Bytes, one length a record; 0 for an absent field.
    pub lengths: Vec<u32>,
}
