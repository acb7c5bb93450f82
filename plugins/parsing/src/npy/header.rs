//! Reads the header of an array: magic, version, length, and a Python dict of type, order and shape.

use super::dtype::{Dtype, dimensions, multiply};
use super::literal::{Encoding, Literal, LiteralError, Value, parse};

/// The first bytes of an array.
pub const MAGIC: &[u8] = b"\x93NUMPY";
/// Longest dict in bytes. NumPy itself refuses to read more than 10,000, unless the caller allows
/// it.
const MAX_DICT: usize = 512 << 10;
/// Number of bytes of the input that a message shows.
const MAX_SHOWN: usize = 24;

/// The result of [`read_header`].
#[derive(Debug)]
pub enum ReadHeader {
    /// The header.
    Whole(NpyHeader),
    /// The header is incomplete. At least `need` bytes from its start are needed.
    Cut {
        /// Number of bytes.
        need: usize,
    },
}

/// The header of an array.
#[derive(Debug, Clone, PartialEq)]
pub struct NpyHeader {
    /// Size of the header in bytes. The data starts after them.
    pub size: usize,
    /// Type of an element.
    pub dtype: Dtype,
    /// Whether the first index changes fastest.
    pub fortran_order: bool,
    /// The dimensions; none for a single element.
    pub shape: Vec<u64>,
    /// Size of the data in bytes; `None` if it is pickled Python objects.
    pub data: Option<u64>,
}

/// The reason why an array can't be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderError {
    /// The header is invalid: what was expected and what was found.
    Damaged(String),
    /// The version of the header is unknown.
    Version(String),
}

/// Reads the header at the start of `bytes`.
///
/// # Errors
/// There is no header, or it is invalid.
pub fn read_header(bytes: &[u8]) -> Result<ReadHeader, HeaderError> {
    let Some(magic) = bytes.get(..MAGIC.len()) else {
        return Ok(ReadHeader::Cut { need: MAGIC.len() });
    };
    if magic != MAGIC {
        return Err(HeaderError::Damaged(format!(
            "expected an array of NumPy, which starts with `\\x93NUMPY`, found `{}`",
            magic.escape_ascii()
        )));
    }
    let Some([major, minor]) = bytes.get(MAGIC.len()..).and_then(<[u8]>::first_chunk) else {
        return Ok(ReadHeader::Cut { need: MAGIC.len() + 2 });
    };
    let (start, encoding) = match (major, minor) {
        (1, 0) => (10, Encoding::Latin1),
        (2, 0) => (12, Encoding::Latin1),
        (3, 0) => (12, Encoding::Utf8),
        _ => {
            return Err(HeaderError::Version(format!(
                "expected version 1.0, 2.0 or 3.0 of the format, found {major}.{minor}"
            )));
        }
    };
    let Some(length) = bytes.get(MAGIC.len() + 2..start) else {
        return Ok(ReadHeader::Cut { need: start });
    };
    // The length is little-endian, of two or four bytes.
    let length = length.iter().rev().fold(0, |above, byte| above << 8 | usize::from(*byte));
    if length > MAX_DICT {
        return Err(HeaderError::Damaged(format!(
            "expected a header of at most {} KiB, found one of {length} bytes",
            MAX_DICT >> 10
        )));
    }
    let size = start + length;
    let Some(text) = bytes.get(start..size) else { return Ok(ReadHeader::Cut { need: size }) };
    let error = |at: usize, expected: &str| {
        let found = match &text[at..] {
            [] => "the end of the header".to_owned(),
            rest if rest.len() > MAX_SHOWN => format!("`{}…`", printable(&rest[..MAX_SHOWN])),
            rest => format!("`{}`", printable(rest)),
        };
        let at = start + at;
        HeaderError::Damaged(format!(
            "expected {expected}, found {found} at byte {at} of the header"
        ))
    };
    let dict =
        parse(text, encoding).map_err(|LiteralError { at, expected }| error(at, expected))?;
    let header = read_dict(&dict, size).map_err(|(at, expected)| error(at, expected))?;
    Ok(ReadHeader::Whole(header))
}

/// Reads the dict. It must have three keys, in any order.
fn read_dict(dict: &Literal, size: usize) -> Result<NpyHeader, (usize, &'static str)> {
    const KEYS: &str = "a dict with the keys 'descr', 'fortran_order' and 'shape'";
    let Value::Dict(items) = &dict.value else { return Err((dict.at, KEYS)) };
    let (mut descr, mut order, mut shape) = (None, None, None);
    for (key, value) in items {
        let Value::Text(name) = &key.value else { return Err((key.at, KEYS)) };
        let place = match &**name {
            "descr" => &mut descr,
            "fortran_order" => &mut order,
            "shape" => &mut shape,
            _ => return Err((key.at, KEYS)),
        };
        if place.replace(value).is_some() {
            return Err((key.at, "each key once"));
        }
    }
    let (Some(descr), Some(order), Some(shape_at)) = (descr, order, shape) else {
        return Err((dict.at, KEYS));
    };
    let Value::Bool(fortran_order) = order.value else { return Err((order.at, "True or False")) };
    let (dtype, shape) = (Dtype::read(descr)?, dimensions(shape_at)?);
    let data = dtype.size().map(|size| {
        multiply(size, &shape).ok_or((shape_at.at, "a shape of fewer than 2^63 bytes of data"))
    });
    Ok(NpyHeader { size, dtype, fortran_order, shape, data: data.transpose()? })
}

/// The bytes of a header for a message. Quotes are left as they are.
fn printable(bytes: &[u8]) -> String {
    let escaped = |byte: &u8| match byte {
        b' '..=b'~' => char::from(*byte).to_string(),
        other => other.escape_ascii().to_string(),
    };
    bytes.iter().map(escaped).collect()
}
