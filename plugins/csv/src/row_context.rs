//! The context that sinks and hints need for a row.

use pipemill_plugin::Records;

use crate::chunk::Chunk;

/// The context that every sink needs: the chunk, some options, and the output for records.
pub(crate) struct RowContext<'a> {
    pub(crate) chunk: &'a Chunk<'a>,
    /// The header, if later rows equal to it are dropped.
    pub(crate) header: Option<&'a [u8]>,
    pub(crate) flexible: bool,
    pub(crate) is_dense: bool,
    pub(crate) empty_is_nan: bool,
    /// Values that stand for an absent value.
    pub(crate) null: &'a [Vec<u8>],
    /// The position of the first record, if it is in the chunk and after a header.
    pub(crate) first_record: Option<usize>,
    /// Rows with more fields than columns, whose extra fields are left out.
    pub(crate) surplus: &'a mut Surplus,
    /// The role of the first row, for the message about a value in it.
    pub(crate) first_row: FirstRow,
    pub(crate) out: &'a mut Records,
}

/// Rows with fields beyond the columns.
#[derive(Debug, Default)]
pub(crate) struct Surplus {
    pub(crate) rows: u64,
    /// The number of fields of the first such row, and its line.
    pub(crate) first: (usize, Option<u64>),
}

/// The role of the first row. If it is a record, it may be a header that the options don't mention.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FirstRow {
    IsHeader,
    /// It is a record, in this line.
    IsData(Option<u64>),
}
