//! The fields of a record, as a decoder declares them.

/// Type of one element of a field. Numbers are little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// Uninterpreted bytes.
    Bytes,
    /// UTF-8 text.
    Utf8,
    /// One byte, 0 or 1.
    Boolean,
    /// Signed, 1 byte.
    Int8,
    /// Signed, 2 bytes.
    Int16,
    /// Signed, 4 bytes.
    Int32,
    /// Signed, 8 bytes.
    Int64,
    /// Unsigned, 1 byte.
    Uint8,
    /// Unsigned, 2 bytes.
    Uint16,
    /// Unsigned, 4 bytes.
    Uint32,
    /// Unsigned, 8 bytes.
    Uint64,
    /// IEEE 754, 2 bytes.
    Float16,
    /// The upper 2 bytes of an IEEE 754 number of 4 bytes.
    Bfloat16,
    /// IEEE 754, 4 bytes.
    Float32,
    /// IEEE 754, 8 bytes.
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

    /// Name of this type in the interface.
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

    /// The type with this name; `None` if there is none.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scalar| scalar.word() == word)
    }

    /// Size of one element in bytes: 1, 2, 4 or 8. Bytes and text have elements of 1 byte.
    pub fn size(self) -> usize {
        match self {
            Self::Bytes | Self::Utf8 | Self::Boolean | Self::Int8 | Self::Uint8 => 1,
            Self::Int16 | Self::Uint16 | Self::Float16 | Self::Bfloat16 => 2,
            Self::Int32 | Self::Uint32 | Self::Float32 => 4,
            Self::Int64 | Self::Uint64 | Self::Float64 => 8,
        }
    }
}

/// One field of a record.
///
/// ```
/// use pipemill_plugin::{Field, Scalar};
///
/// let fields = [
///     Field::utf8("caption").nullable(),
///     Field::new("taken", Scalar::Int64).logical("timestamp[us]"),
///     Field::new("color", Scalar::Uint8).categories(["red", "green", "blue"]),
///     Field::new("pixels", Scalar::Uint8).shaped([0, 3]),
///     Field::utf8("tags").list(),
/// ];
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Name by which consumers request it; unique in its schema.
    pub name: String,
    /// Type of an element.
    pub scalar: Scalar,
    /// Size of each dimension; empty for a single element. A size of 0 means any: it follows from
    /// the length of each value. Bytes and text with one dimension are lists.
    pub shape: Vec<u32>,
    /// Whether a record may lack the field.
    pub nullable: bool,
    /// The meaning of the values; empty if it is not known. `field` in the interface
    /// (`decoder.wit`) lists the words.
    pub logical: String,
    /// If not empty, the values are indices into this list, which consumers see as text.
    pub categories: Vec<String>,
    /// More facts for the consumer, as keys and values.
    pub metadata: Vec<(String, String)>,
}

impl Field {
    /// Bytes of each value, if all have the same number: not of bytes, text, and shapes with a 0.
    pub fn fixed_size(&self) -> Option<usize> {
        let is_fixed = !matches!(self.scalar, Scalar::Bytes | Scalar::Utf8);
        let sizes = self.shape.iter().map(|size| *size as usize);
        let size = sizes.fold(self.scalar.size(), usize::saturating_mul);
        (is_fixed && size > 0).then_some(size)
    }

    /// A field of one element that every record has.
    pub fn new(name: impl Into<String>, scalar: Scalar) -> Self {
        Self {
            name: name.into(),
            scalar,
            shape: Vec::new(),
            nullable: false,
            logical: String::new(),
            categories: Vec::new(),
            metadata: Vec::new(),
        }
    }
    /// A field of uninterpreted bytes.
    pub fn bytes(name: impl Into<String>) -> Self {
        Self::new(name, Scalar::Bytes)
    }
    /// A field of text.
    pub fn utf8(name: impl Into<String>) -> Self {
        Self::new(name, Scalar::Utf8)
    }
    /// The same field with a shape.
    pub fn shaped(mut self, shape: impl Into<Vec<u32>>) -> Self {
        self.shape = shape.into();
        self
    }
    /// The same field as a list of any length: of numbers, or of bytes or text.
    pub fn list(self) -> Self {
        self.shaped([0])
    }
    /// The same field, which a record may lack.
    pub fn nullable(mut self) -> Self {
        self.nullable = true;
        self
    }
    /// The same field with a logical type.
    pub fn logical(mut self, word: impl Into<String>) -> Self {
        self.logical = word.into();
        self
    }
    /// The same field with the texts for its values. Its type must be an unsigned integer.
    pub fn categories<T: Into<String>>(mut self, texts: impl IntoIterator<Item = T>) -> Self {
        self.categories = texts.into_iter().map(Into::into).collect();
        self
    }
    /// The same field with one more fact for the consumer.
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.push((key.into(), value.into()));
        self
    }
}
