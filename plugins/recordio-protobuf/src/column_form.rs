//! The fields that a column of the options becomes, and their types.

use pipemill_plugin::Scalar;

/// The fields that a column becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ColumnForm {
    /// No field: the column is only a default, and the first record lacks it.
    Nothing,
    /// One field: the one value of bytes.
    Bytes,
    /// One field: all elements of a tensor, with this shape.
    Dense(Scalar, Vec<u32>),
    /// Three fields: keys, values and shape of a sparse tensor.
    Sparse(Scalar),
}

impl ColumnForm {
    /// Number of fields.
    pub(crate) fn fields(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Bytes | Self::Dense(..) => 1,
            Self::Sparse(_) => 3,
        }
    }
}
