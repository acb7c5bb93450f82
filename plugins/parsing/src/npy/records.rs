//! Arrays as records: the fields of a row or of a whole array, and their values.

use std::ops::Range;

use pipemill_plugin::{Block, Field, Records, Scalar};

use super::dtype::{Dtype, ElementType, multiply};
use super::header::{HeaderError, NpyHeader, ReadHeader, read_header};
use crate::field_spec::{FieldType, display_type};

/// The records that an array becomes: its rows, or one record that is the whole array.
#[derive(Debug)]
pub struct ArrayLayout {
    fields: Vec<Field>,
    columns: Vec<Column>,
    /// Number of records.
    pub records: u64,
    /// Size of a record in bytes. May be more than memory holds. A row has at least 1.
    pub record: u64,
}

/// The layout of a field in a record.
#[derive(Debug)]
struct Column {
    /// Its start.
    offset: u64,
    /// Its size in bytes.
    size: u64,
    form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Numbers: any bytes are valid.
    Numbers,
    /// Booleans: bytes that are 0 or 1.
    Booleans,
    /// Bytes with NULs after them.
    Padded,
    /// Several strings, each of this size.
    PaddedList(u64),
}

/// The error of an invalid value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueError {
    /// Index of the field.
    pub field: usize,
    /// The offset of the byte in the record.
    pub at: usize,
    /// The byte that is not a boolean.
    pub found: u8,
}

/// The bytes that contain records.
#[derive(Debug, Clone, Copy)]
pub enum ArrayBytes<'a> {
    /// The chunk.
    Chunk(&'a [u8]),
    /// A decompressed block.
    Block(&'a Block),
}

impl ArrayBytes<'_> {
    fn bytes(&self, range: Range<usize>) -> &[u8] {
        match self {
            Self::Chunk(chunk) => &chunk[range],
            Self::Block(block) => &block.bytes[range],
        }
    }

    /// Adds the next field of the record: this range.
    #[inline]
    fn field(&self, range: Range<usize>, out: &mut Records) {
        match self {
            Self::Chunk(_) => out.field(range),
            Self::Block(block) => out.field_in(block, range),
        }
    }
}

/// The reason why bytes can't be a field.
#[derive(Debug)]
pub enum ArrayError {
    /// They are not an array: what was expected and what was found.
    Damaged(String),
    /// The array is not supported: what was expected and what was found.
    Unsupported(String),
}

impl From<HeaderError> for ArrayError {
    fn from(error: HeaderError) -> Self {
        match error {
            HeaderError::Damaged(why) => Self::Damaged(why),
            HeaderError::Version(why) => Self::Unsupported(why),
        }
    }
}

/// Reads bytes that are one array, to be one record of one field, which is called `name`.
///
/// # Errors
/// The bytes are not an array, the array can't be a field, or the number of bytes is wrong.
pub fn read_whole(bytes: &[u8], name: &str) -> Result<(NpyHeader, ArrayLayout), ArrayError> {
    let header = match read_header(bytes)? {
        ReadHeader::Whole(header) => header,
        ReadHeader::Cut { need } => {
            return Err(ArrayError::Damaged(format!(
                "expected an array, whose header has at least {need} bytes, found {} bytes",
                bytes.len()
            )));
        }
    };
    let layout = header.whole(name).map_err(|why| {
        ArrayError::Unsupported(format!(
            "expected an array that can be a field, found one with {why}"
        ))
    })?;
    match header.data.map(|data| data + header.size as u64) {
        Some(whole) if whole != bytes.len() as u64 => Err(ArrayError::Damaged(format!(
            "expected {whole} bytes for an array of shape {}, found {}",
            header.display_shape(),
            bytes.len()
        ))),
        _ => Ok((header, layout)),
    }
}

impl NpyHeader {
    /// Compares a whole array with the type of a field. A size of 0 matches any size.
    ///
    /// # Errors
    /// The error says what was expected and what was found.
    pub fn check_type(&self, layout: &ArrayLayout, wanted: &FieldType) -> Result<(), String> {
        let (FieldType { scalar, shape, .. }, found) = (wanted, &layout.fields[0]);
        let same = |(wanted, found): (&u32, &u64)| *wanted == 0 || u64::from(*wanted) == *found;
        let same_shape = self.shape.len() == shape.len() && shape.iter().zip(&self.shape).all(same);
        if *scalar == found.scalar && found.logical.is_empty() && same_shape {
            return Ok(());
        }
        let (wanted, found) = (display_type(*scalar, shape), display_fields(&layout.fields));
        Err(format!("expected {wanted}, found {found}"))
    }

    /// The rows of the array: one record for each index of the first dimension. The field of a row
    /// is called `name`; a structured array has a field for each member.
    ///
    /// # Errors
    /// The error names the unsupported feature of the array, and what to do about it.
    pub fn rows(&self, name: &str) -> Result<ArrayLayout, String> {
        let (count, row) = match &self.shape[..] {
            [] => (1, &[][..]),
            [count, row @ ..] => (*count, row),
        };
        if let Some(zero) = row.iter().position(|size| *size == 0) {
            return Err(format!(
                "rows without bytes: dimension {} of the shape {} is 0",
                zero + 1,
                self.display_shape()
            ));
        }
        self.layout(name, count, row)
    }

    /// The whole array as one record of one field. A dimension of the array may be 0.
    ///
    /// # Errors
    /// Like [`rows`](Self::rows). Structured arrays are not supported, either.
    pub fn whole(&self, name: &str) -> Result<ArrayLayout, String> {
        if let Dtype::Structured { .. } = self.dtype {
            return Err(
                "members (a structured type), which can't be one field; save an array for \
                        each member"
                    .to_owned(),
            );
        }
        self.layout(name, 1, &self.shape)
    }

    fn layout(&self, name: &str, records: u64, shape: &[u64]) -> Result<ArrayLayout, String> {
        if self.fortran_order && self.shape.len() > 1 {
            return Err(
                "the order of Fortran, in which no row is in one piece; save the array as \
                        np.ascontiguousarray(x)"
                    .to_owned(),
            );
        }
        let (mut fields, mut columns) = (Vec::new(), Vec::new());
        let mut add = |name: &str, element: &ElementType, shape: &[u64], offset| {
            let (field, size, form) = field(name, element, shape)?;
            fields.push(field);
            columns.push(Column { offset, size, form });
            Ok::<_, String>(())
        };
        match &self.dtype {
            Dtype::Plain(element) => add(name, element, shape, 0)?,
            Dtype::Structured { members, .. } => {
                if !shape.is_empty() {
                    return Err(format!(
                        "members in several dimensions, the shape is {}; save the array as x.ravel()",
                        self.display_shape()
                    ));
                }
                for member in members {
                    let what = |why| format!("member `{}` with {why}", member.name.escape_debug());
                    let Some(element) = &member.element else {
                        return Err(what(
                            "members of its own; save the array as \
                             np.lib.recfunctions.structured_to_unstructured(x), or flatten the type"
                                .to_owned(),
                        ));
                    };
                    if member.shape.contains(&0) {
                        return Err(what("a dimension of 0".to_owned()));
                    }
                    add(&member.name, element, &member.shape, member.offset).map_err(what)?;
                }
            }
        }
        // Objects are not supported, and the size of the array was checked.
        let record = self.dtype.size().and_then(|size| multiply(size, shape)).unwrap_or(u64::MAX);
        Ok(ArrayLayout { fields, columns, records, record })
    }

    /// The shape as Python writes it.
    pub fn display_shape(&self) -> String {
        match &self.shape[..] {
            [one] => format!("({one},)"),
            all => format!("({})", all.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")),
        }
    }
}

/// A field, its bytes, and how to read them.
fn field(name: &str, element: &ElementType, shape: &[u64]) -> Result<(Field, u64, Form), String> {
    let kind = element.kind.clone()?;
    let width = element.size.unwrap_or(u64::MAX);
    let size = multiply(width, shape).unwrap_or(u64::MAX);
    let field = Field::new(name, kind.scalar).logical(kind.logical);
    if kind.scalar == Scalar::Bytes {
        return match shape {
            [] => Ok((field, size, Form::Padded)),
            [_] => Ok((field.list(), size, Form::PaddedList(width))),
            _ => Err(format!(
                "bytes in several dimensions (`{}`); a field can have a list of them",
                element.text
            )),
        };
    }
    let dims = shape.iter().map(|size| u32::try_from(*size)).collect::<Result<Vec<_>, _>>();
    let dims = dims.map_err(|_| "a dimension of 2^32 or more in a record".to_owned())?;
    let form = if kind.scalar == Scalar::Boolean { Form::Booleans } else { Form::Numbers };
    Ok((field.shaped(dims), size, form))
}

impl ArrayLayout {
    /// The fields of a record.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Whether a record is one field whose bytes need no check and no change. If so, the record is
    /// its bytes.
    pub fn is_one_span(&self) -> bool {
        let [Column { offset: 0, size, form: Form::Numbers }] = self.columns[..] else {
            return false;
        };
        size == self.record
    }

    /// Adds the fields of the record that starts at `at` in these bytes. The record must be
    /// complete.
    ///
    /// # Errors
    /// A value is invalid. The fields must be abandoned then.
    #[inline]
    pub fn add_fields(
        &self,
        bytes: ArrayBytes<'_>,
        at: usize,
        out: &mut Records,
    ) -> Result<(), ValueError> {
        for (index, column) in self.columns.iter().enumerate() {
            // The values fit: the record is in memory.
            let start = at + column.offset as usize;
            let range = start..start + column.size as usize;
            match column.form {
                Form::Numbers => bytes.field(range, out),
                Form::Booleans => {
                    let all = bytes.bytes(range.clone());
                    // The compiler does this with vectors, unlike a search.
                    if all.iter().fold(0, |any, byte| any | byte) > 1 {
                        let wrong = all.iter().position(|byte| *byte > 1).unwrap_or(0);
                        let at = start - at + wrong;
                        return Err(ValueError { field: index, at, found: all[wrong] });
                    }
                    bytes.field(range, out);
                }
                Form::Padded => {
                    let end = start + unpadded(bytes.bytes(range)).len();
                    bytes.field(start..end, out);
                }
                Form::PaddedList(width) => {
                    out.list(bytes.bytes(range).chunks(width as usize).map(unpadded));
                }
            }
        }
        Ok(())
    }

    /// Describes the fault of a value.
    pub fn describe(&self, error: ValueError) -> String {
        let ValueError { field, at, found } = error;
        let name = &self.fields[field].name;
        format!(
            "field `{name}`: expected a boolean, 0 or 1, found {found} at byte {at} of the record"
        )
    }
}

/// The bytes without the NULs after them, as NumPy reads them.
fn unpadded(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    &bytes[..end]
}

/// Fields as a message shows them: the type of a single one, otherwise names and types.
pub fn display_fields(fields: &[Field]) -> String {
    let shown = |field: &Field| {
        let text = display_type(field.scalar, &field.shape);
        match &*field.logical {
            "" => text,
            logical => format!("{text} ({logical})"),
        }
    };
    match fields {
        [one] => shown(one),
        all => {
            let all = all.iter().map(|field| format!("{}:{}", field.name, shown(field)));
            all.collect::<Vec<_>>().join(", ")
        }
    }
}
