//! The fields of a channel's records in the form for C.

use std::ffi::{CString, c_char};

use pipemill_ring::protocol as ring;

use crate::text::for_c;

/// The type of one element of a field. Numbers are little-endian.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// A string of bytes, of any length.
    Bytes = 1,
    /// Text, of any length. The host does not check that it is UTF-8.
    Utf8,
    /// One byte, 0 or 1.
    Boolean,
    /// `int8_t`
    Int8,
    /// `int16_t`
    Int16,
    /// `int32_t`
    Int32,
    /// `int64_t`
    Int64,
    /// `uint8_t`
    Uint8,
    /// `uint16_t`
    Uint16,
    /// `uint32_t`
    Uint32,
    /// `uint64_t`
    Uint64,
    /// IEEE 754, 2 bytes
    Float16,
    /// The upper 16 bits of a `float`
    Bfloat16,
    /// `float`
    Float32,
    /// `double`
    Float64,
}

impl From<ring::Scalar> for Scalar {
    fn from(scalar: ring::Scalar) -> Scalar {
        match scalar {
            ring::Scalar::Bytes => Scalar::Bytes,
            ring::Scalar::Utf8 => Scalar::Utf8,
            ring::Scalar::Boolean => Scalar::Boolean,
            ring::Scalar::Int8 => Scalar::Int8,
            ring::Scalar::Int16 => Scalar::Int16,
            ring::Scalar::Int32 => Scalar::Int32,
            ring::Scalar::Int64 => Scalar::Int64,
            ring::Scalar::Uint8 => Scalar::Uint8,
            ring::Scalar::Uint16 => Scalar::Uint16,
            ring::Scalar::Uint32 => Scalar::Uint32,
            ring::Scalar::Uint64 => Scalar::Uint64,
            ring::Scalar::Float16 => Scalar::Float16,
            ring::Scalar::Bfloat16 => Scalar::Bfloat16,
            ring::Scalar::Float32 => Scalar::Float32,
            ring::Scalar::Float64 => Scalar::Float64,
        }
    }
}

/// One field that each record of a batch has. All pointers live as long as the batch. A zero byte
/// in a text is the character U+FFFD here.
#[repr(C)]
pub struct Field {
    /// Name, unique in the batch.
    pub name: *const c_char,
    /// The type of one element.
    pub scalar: Scalar,
    /// The type in words, as in a configuration: "float32".
    pub type_name: *const c_char,
    /// Size of one element in bytes: 1, 2, 4 or 8.
    pub element_bytes: usize,
    /// Number of elements in each dimension. 0 stands for a dimension that follows from the length
    /// of each value. Bytes and text with one dimension are lists: docs/ring.md has their bytes.
    pub shape: *const u32,
    /// Number of dimensions; 0 for a single element.
    pub dimensions: usize,
    /// Whether a record may lack the field.
    pub nullable: bool,
    /// The meaning of the values, for example "timestamp[us]"; "" if it is not known.
    pub logical: *const c_char,
    /// If there are categories, each value is an index into this list of texts.
    pub categories: *const *const c_char,
    /// Number of categories; usually 0.
    pub category_count: usize,
}

/// The fields, and the memory that their pointers point to.
pub(crate) struct Schema {
    pub(crate) fields: Box<[Field]>,
    /// This is never read: it keeps the targets of the pointers in `fields` alive.
    _texts: Box<[Texts]>,
    source: Box<[ring::Field]>,
}

struct Texts {
    name: CString,
    type_name: CString,
    logical: CString,
    shape: Box<[u32]>,
    _categories: Box<[CString]>,
    category_pointers: Box<[*const c_char]>,
}

// SAFETY: the pointers lead to memory that the schema itself owns, that nobody changes, and that
// does not move when the schema does.
unsafe impl Send for Schema {}
// SAFETY: as above; all access is reading.
unsafe impl Sync for Schema {}

impl Schema {
    pub(crate) fn new(fields: &[ring::Field]) -> Schema {
        let texts: Box<[Texts]> = fields.iter().map(Texts::new).collect();
        let described = fields.iter().zip(&texts).map(|(field, texts)| Field {
            name: texts.name.as_ptr(),
            scalar: field.scalar.into(),
            type_name: texts.type_name.as_ptr(),
            element_bytes: field.scalar.size(),
            shape: texts.shape.as_ptr(),
            dimensions: texts.shape.len(),
            nullable: field.nullable,
            logical: texts.logical.as_ptr(),
            categories: texts.category_pointers.as_ptr(),
            category_count: texts.category_pointers.len(),
        });
        Schema { fields: described.collect(), _texts: texts, source: fields.into() }
    }

    /// Whether this describes these fields.
    pub(crate) fn is_of(&self, fields: &[ring::Field]) -> bool {
        *self.source == *fields
    }
}

impl Texts {
    fn new(field: &ring::Field) -> Texts {
        let categories: Box<[CString]> = field.categories.iter().map(|text| for_c(text)).collect();
        Texts {
            name: for_c(&field.name),
            type_name: for_c(field.scalar.word()),
            logical: for_c(&field.logical),
            shape: field.shape.as_slice().into(),
            category_pointers: categories.iter().map(|text| text.as_ptr()).collect(),
            _categories: categories,
        }
    }
}
