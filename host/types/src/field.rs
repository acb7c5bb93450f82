//! The fields of a record: name, element type and shape.

use serde::{Deserialize, Serialize};

/// Type of one element of a field. Numbers are stored in little-endian order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scalar {
    /// A string of bytes, of any length.
    Bytes,
    /// Text in UTF-8, of any length.
    Utf8,
    /// One byte, 0 or 1.
    Boolean,
    /// Signed integer of 4 bytes.
    Int32,
    /// Signed integer of 8 bytes.
    Int64,
    /// IEEE 754 number of 4 bytes.
    Float32,
    /// IEEE 754 number of 8 bytes.
    Float64,
}

impl Scalar {
    /// Size of one element in bytes: 1, 4 or 8. Bytes and text have elements of 1 byte.
    pub fn size(self) -> usize {
        match self {
            Self::Bytes | Self::Utf8 | Self::Boolean => 1,
            Self::Int32 | Self::Float32 => 4,
            Self::Int64 | Self::Float64 => 8,
        }
    }

    /// Name of this type in the ring's protocol, in decoder options and in messages.
    pub fn word(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Utf8 => "utf8",
            Self::Boolean => "boolean",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
        }
    }
}

/// One field that every record of a channel has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Field {
    /// Name, unique in the schema.
    pub name: String,
    /// Type of one element.
    pub scalar: Scalar,
    /// Number of elements in each dimension. Empty for a single element. 0 stands for a dimension
    /// whose size follows from the length of each value.
    pub shape: Vec<u32>,
}

impl Field {
    /// Whether each value is one string of bytes or text, of any length.
    pub fn is_text(&self) -> bool {
        matches!(self.scalar, Scalar::Bytes | Scalar::Utf8) && self.shape.is_empty()
    }
}
