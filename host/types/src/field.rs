//! The fields of a record: name, type and shape.

use serde::{Deserialize, Serialize};

/// Type of one element of a field. Numbers are little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scalar {
    /// Any bytes.
    Bytes,
    /// Text in UTF-8.
    Utf8,
    /// One byte, 0 or 1.
    Boolean,
    /// 4 bytes, signed.
    Int32,
    /// 8 bytes, signed.
    Int64,
    /// 4 bytes, IEEE 754.
    Float32,
    /// 8 bytes, IEEE 754.
    Float64,
}

impl Scalar {
    /// Size of an element in bytes; 1 for bytes and text.
    pub fn size(self) -> usize {
        match self {
            Self::Bytes | Self::Utf8 | Self::Boolean => 1,
            Self::Int32 | Self::Float32 => 4,
            Self::Int64 | Self::Float64 => 8,
        }
    }

    /// Its name in the ring's protocol, in options and in messages.
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
    /// Its name, unique in its schema.
    pub name: String,
    /// Type of one element.
    pub scalar: Scalar,
    /// Elements in each dimension. Empty for a single element; 0 for a dimension that the length of each
    /// field gives.
    pub shape: Vec<u32>,
}

impl Field {
    /// Whether it is one string of bytes or text, of any length.
    pub fn is_text(&self) -> bool {
        matches!(self.scalar, Scalar::Bytes | Scalar::Utf8) && self.shape.is_empty()
    }
}
