//! The fields of a record: name, element type, shape and meaning.

use std::collections::BTreeMap;

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
    /// Signed integer of 1 byte.
    Int8,
    /// Signed integer of 2 bytes.
    Int16,
    /// Signed integer of 4 bytes.
    Int32,
    /// Signed integer of 8 bytes.
    Int64,
    /// Unsigned integer of 1 byte.
    Uint8,
    /// Unsigned integer of 2 bytes.
    Uint16,
    /// Unsigned integer of 4 bytes.
    Uint32,
    /// Unsigned integer of 8 bytes.
    Uint64,
    /// IEEE 754 number of 2 bytes.
    Float16,
    /// The upper 2 bytes of an IEEE 754 number of 4 bytes.
    Bfloat16,
    /// IEEE 754 number of 4 bytes.
    Float32,
    /// IEEE 754 number of 8 bytes.
    Float64,
}

impl Scalar {
    /// All types, in the order of declaration.
    pub const ALL: [Self; 15] = [
        Self::Bytes,
        Self::Utf8,
        Self::Boolean,
        Self::Int8,
        Self::Int16,
        Self::Int32,
        Self::Int64,
        Self::Uint8,
        Self::Uint16,
        Self::Uint32,
        Self::Uint64,
        Self::Float16,
        Self::Bfloat16,
        Self::Float32,
        Self::Float64,
    ];

    /// Size of one element in bytes: 1, 2, 4 or 8. Bytes and text have elements of 1 byte.
    pub fn size(self) -> usize {
        match self {
            Self::Bytes | Self::Utf8 | Self::Boolean | Self::Int8 | Self::Uint8 => 1,
            Self::Int16 | Self::Uint16 | Self::Float16 | Self::Bfloat16 => 2,
            Self::Int32 | Self::Uint32 | Self::Float32 => 4,
            Self::Int64 | Self::Uint64 | Self::Float64 => 8,
        }
    }

    /// Name of this type in the decoder interface, in the ring's protocol, in decoder options and
    /// in messages.
    pub fn word(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Utf8 => "utf8",
            Self::Boolean => "boolean",
            Self::Int8 => "int8",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Uint8 => "uint8",
            Self::Uint16 => "uint16",
            Self::Uint32 => "uint32",
            Self::Uint64 => "uint64",
            Self::Float16 => "float16",
            Self::Bfloat16 => "bfloat16",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
        }
    }

    /// The type with this name.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scalar| scalar.word() == word)
    }

    /// Whether this is bytes or text, of any length.
    pub fn is_string(self) -> bool {
        matches!(self, Self::Bytes | Self::Utf8)
    }

    /// Whether this is an integer without a sign.
    pub fn is_unsigned(self) -> bool {
        matches!(self, Self::Uint8 | Self::Uint16 | Self::Uint32 | Self::Uint64)
    }

    /// Whether this is an integer, with a sign or without.
    pub fn is_integer(self) -> bool {
        self.is_unsigned() || matches!(self, Self::Int8 | Self::Int16 | Self::Int32 | Self::Int64)
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
    /// whose size follows from the length of each value. Bytes and text of one dimension are lists.
    pub shape: Vec<u32>,
    /// Whether a record may lack the field.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub nullable: bool,
    /// The meaning of the values, for example `timestamp[us]`; empty if it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub logical: String,
    /// If not empty, the values are indices into this list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<String>,
    /// More facts for the consumer, sorted by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

impl Field {
    /// A field that is never absent, without further facts.
    pub fn new(name: impl Into<String>, scalar: Scalar, shape: Vec<u32>) -> Self {
        Self {
            name: name.into(),
            scalar,
            shape,
            nullable: false,
            logical: String::new(),
            categories: Vec::new(),
            metadata: BTreeMap::new(),
        }
    }

    /// Whether each value is one string of bytes or text, of any length.
    pub fn is_text(&self) -> bool {
        self.scalar.is_string() && self.shape.is_empty()
    }

    /// Whether each value is a list of strings of bytes or text.
    pub fn is_list(&self) -> bool {
        self.scalar.is_string() && !self.shape.is_empty()
    }

    /// Bytes of each value, if all values have the same number of bytes.
    pub fn fixed_size(&self) -> Option<usize> {
        let is_fixed = !self.scalar.is_string() && !self.shape.contains(&0);
        self.value_bytes().filter(|_| is_fixed).map(|bytes| bytes as usize)
    }

    /// Bytes of one value without the dimensions of any size. `None` if they don't fit into 32
    /// bits.
    fn value_bytes(&self) -> Option<u32> {
        let known = self.shape.iter().filter(|size| **size > 0);
        known.copied().try_fold(self.scalar.size() as u32, u32::checked_mul)
    }

    /// The problem of the field without regard to others; `None` if there is none.
    pub fn problem(&self) -> Option<String> {
        let scalar = self.scalar.word();
        if self.shape.len() > MAX_DIMENSIONS {
            let count = self.shape.len();
            return Some(format!("has {count} dimensions; {MAX_DIMENSIONS} are possible"));
        }
        if self.value_bytes().is_none() {
            let shape = &self.shape;
            return Some(format!("has {scalar} {shape:?}: a value would have 4 GiB or more"));
        }
        if self.is_list() && self.shape.len() > 1 {
            return Some(format!(
                "has {} dimensions of {scalar}; a list has one",
                self.shape.len()
            ));
        }
        let is_index = self.scalar.is_unsigned() && self.shape.is_empty();
        if !self.categories.is_empty() && !is_index {
            let wants = "one uint8, uint16, uint32 or uint64";
            return Some(format!("has categories, so its values must be {wants}, not {scalar}"));
        }
        if let Some(wants) = logical_wants(self)
            && !wants.1
        {
            let (logical, shape) = (&self.logical, &self.shape);
            return Some(format!(
                "is a {logical}, so it must be {}, not {scalar} {shape:?}",
                wants.0
            ));
        }
        let unknown = self.metadata.keys().find(|key| key.starts_with(RESERVED_PREFIX))?;
        Some(format!("has the metadata `{unknown}`, which this version of pipemill does not know"))
    }
}

/// Dimensions that a field may have, as in NumPy.
const MAX_DIMENSIONS: usize = 32;

/// Keys of metadata that begin with this are kept for later versions of the interface.
const RESERVED_PREFIX: &str = "pipemill.";

/// The type that a logical type needs, in words, and whether the field has it. `None` if the
/// interface does not define the logical type.
fn logical_wants(field: &Field) -> Option<(&'static str, bool)> {
    let (word, unit) = match field.logical.split_once('[') {
        Some((word, unit)) => (word, unit.strip_suffix(']')?),
        None => (field.logical.as_str(), ""),
    };
    let is = |scalar| field.scalar == scalar;
    Some(match (word, unit) {
        ("date", "") => ("int32", is(Scalar::Int32)),
        ("timestamp" | "time", "s" | "ms" | "us" | "ns") => ("int64", is(Scalar::Int64)),
        ("decimal" | "json", "") => ("utf8", is(Scalar::Utf8)),
        ("uuid", "") => ("uint8 of shape [16]", is(Scalar::Uint8) && field.shape == [16]),
        ("image", "") => ("bytes", is(Scalar::Bytes)),
        ("tokens", "") => ("an integer type", field.scalar.is_integer()),
        _ => return None,
    })
}

/// The text for a field value that is an index into the categories; `None` if there is none.
pub fn category<'f>(field: &'f Field, value: &[u8]) -> Option<&'f str> {
    let mut index = [0; 8];
    index.get_mut(..value.len())?.copy_from_slice(value);
    let index = usize::try_from(u64::from_le_bytes(index)).ok()?;
    field.categories.get(index).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(scalar: Scalar, shape: Vec<u32>) -> Option<String> {
        Field::new("f", scalar, shape).problem()
    }

    #[test]
    fn a_field_has_at_most_32_dimensions() {
        assert_eq!(problem(Scalar::Uint8, vec![1; 32]), None);
        let refused = problem(Scalar::Uint8, vec![1; 200_000]);
        assert_eq!(refused.as_deref(), Some("has 200000 dimensions; 32 are possible"));
    }

    #[test]
    fn a_value_has_less_than_4_gib() {
        assert_eq!(problem(Scalar::Uint8, vec![0, u32::MAX]), None);
        assert_eq!(problem(Scalar::Float64, vec![1 << 14, 1 << 14, 0]), None);
        let refused = problem(Scalar::Float64, vec![1 << 15, 1 << 14]).unwrap();
        assert!(refused.contains("float64 [32768, 16384]: a value would have 4 GiB"), "{refused}");
    }
}
