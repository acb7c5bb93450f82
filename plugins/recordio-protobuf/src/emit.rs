//! Emits the fields of a record that was parsed.
//!
//! A tensor of float32 in one piece at a multiple of 4 bytes is emitted as a span of the chunk.
//! That is the usual case: RecordIO aligns records to 4 bytes, SageMaker's writer aligns the
//! tensors in them, and numpy can read them in place. Other numbers are copied: float64 is aligned
//! only by chance, and int32 is encoded as varints.

use std::borrow::Cow;
use std::ops::Range;

use pipemill_parsing::field_spec::shape_accepts;
use pipemill_parsing::protobuf::{append_varints, count_varints, each_varint};
use pipemill_plugin::{Records, Scalar};

use crate::column_form::ColumnForm;
use crate::describe::{self, Refused};
use crate::layout::Layout;
use crate::record::{Record, RecordBytes};
use crate::settings::{Column, Settings};
use crate::tensor::Tensor;

/// The largest number that fits into the int64 of a key or a shape.
const MAX_KEY: u64 = i64::MAX as u64;

/// Emits the fields of a record, but does not end it.
#[inline]
pub(crate) fn record(
    settings: &Settings,
    layout: &Layout,
    record: &Record,
    source: &RecordBytes,
    max_record: u64,
    out: &mut Records,
) -> Result<(), Refused> {
    let columns = settings.columns.iter().zip(&layout.forms).zip(&record.tensors);
    for ((column, form), tensor) in columns {
        let dense = settings.dense;
        let mut emitter =
            ColumnEmitter { column, form, tensor, record, source, dense, max_record, out };
        emitter.emit()?;
    }
    let texts =
        [("uid", settings.uid, &record.uid), ("metadata", settings.metadata, &record.metadata)];
    for (name, wanted, range) in texts {
        match range {
            _ if !wanted => {}
            None => out.absent(),
            Some(range) => emit_text(name, range, source, out)?,
        }
    }
    Ok(())
}

fn emit_text(
    name: &str,
    range: &Range<usize>,
    source: &RecordBytes,
    out: &mut Records,
) -> Result<(), Refused> {
    let bytes = &source.bytes[range.clone()];
    if let Err(error) = str::from_utf8(bytes) {
        return Err(describe::not_utf8(name, bytes[error.valid_up_to()], error.valid_up_to()));
    }
    emit_range(range.clone(), source, out);
    Ok(())
}

/// Emits the bytes in this range as a field.
#[inline(always)]
fn emit_range(range: Range<usize>, source: &RecordBytes, out: &mut Records) {
    if source.in_chunk {
        out.field(range);
    } else {
        out.field_bytes(&source.bytes[range]);
    }
}

/// The elements of a tensor, little-endian. They are borrowed if the input has them in this form,
/// in one piece.
fn values<'a>(
    tensor: &Tensor,
    scalar: Scalar,
    source: &RecordBytes<'a>,
) -> Result<Cow<'a, [u8]>, Refused> {
    if let Some(range) = tensor.values.single()
        && scalar != Scalar::Int32
    {
        return Ok(Cow::Borrowed(&source.bytes[range]));
    }
    let mut values = Vec::new();
    let result = tensor.append_to(source.bytes, &mut values);
    result.map_err(|error| Refused::invalid(error, source))?;
    Ok(Cow::Owned(values))
}

/// Emits the fields of one column.
struct ColumnEmitter<'a> {
    column: &'a Column,
    form: &'a ColumnForm,
    tensor: &'a Tensor,
    record: &'a Record,
    source: &'a RecordBytes<'a>,
    /// Whether a sparse tensor becomes one array with its zeros.
    dense: bool,
    max_record: u64,
    out: &'a mut Records,
}

impl ColumnEmitter<'_> {
    #[inline]
    fn emit(&mut self) -> Result<(), Refused> {
        if self.tensor.scalar.is_none() && self.column.optional {
            let fields = if matches!(self.form, ColumnForm::Sparse(_)) { 3 } else { 1 };
            (0..fields).for_each(|_| self.out.absent());
            return Ok(());
        }
        match self.form {
            ColumnForm::Nothing if self.tensor.scalar.is_none() => Ok(()),
            ColumnForm::Bytes if self.tensor.scalar == Some(Scalar::Bytes) => self.emit_bytes(),
            ColumnForm::Dense(scalar, shape) if self.tensor.scalar == Some(*scalar) => {
                self.emit_dense(*scalar, shape)
            }
            ColumnForm::Sparse(scalar) if self.tensor.scalar == Some(*scalar) => self.emit_sparse(),
            _ => Err(self.refuse()),
        }
    }

    #[cold]
    fn refuse(&self) -> Refused {
        describe::mismatch(self.column, self.form, self.tensor, self.record, self.source.bytes)
    }

    fn emit_bytes(&mut self) -> Result<(), Refused> {
        match self.tensor.values.single() {
            Some(range) if self.tensor.count == 1 => {
                emit_range(range, self.source, self.out);
                Ok(())
            }
            _ => Err(describe::several_bytes(self.column, self.tensor.count)),
        }
    }

    #[inline]
    fn emit_dense(&mut self, scalar: Scalar, shape: &[u32]) -> Result<(), Refused> {
        let tensor = self.tensor;
        if tensor.is_sparse() {
            return self.emit_with_zeros(scalar, shape);
        }
        let right_count = shape_accepts(shape, tensor.count);
        if !right_count || !tensor.shape.is_empty() && !self.has_shape(shape) {
            return Err(self.refuse());
        }
        match tensor.values.single() {
            Some(range)
                if scalar == Scalar::Float32
                    && self.source.in_chunk
                    && range.start.is_multiple_of(4)
                    && !range.is_empty() =>
            {
                self.out.field(range);
                Ok(())
            }
            _ => self.emit_values(),
        }
    }

    /// Whether the shape that the tensor names fits its number of elements, and is the same as
    /// `shape`. A named shape of one dimension matches any shape.
    fn has_shape(&self, shape: &[u32]) -> bool {
        let named = &self.tensor.shape;
        let same = named.len() == shape.len()
            && named
                .iter()
                .zip(shape)
                .all(|(named, size)| *size == 0 || *named == u64::from(*size));
        self.tensor.size() == Some(self.tensor.count as u64) && (named.len() == 1 || same)
    }

    fn emit_values(&mut self) -> Result<(), Refused> {
        let (tensor, bytes) = (self.tensor, self.source.bytes);
        let result = self.out.field_made(|payload| tensor.append_to(bytes, payload));
        result.map_err(|error| Refused::invalid(error, self.source))
    }

    fn emit_sparse(&mut self) -> Result<(), Refused> {
        let tensor = self.tensor;
        // A tensor without elements and without a shape counts as dense and as sparse.
        if !tensor.is_sparse() && tensor.count > 0 {
            return Err(self.refuse());
        }
        self.check_keys()?;
        self.emit_keys()?;
        self.emit_values()?;
        if let Some(size) = tensor.shape.iter().find(|size| **size > MAX_KEY) {
            return Err(describe::huge_shape(self.column, *size));
        }
        self.out.field_made(|payload| {
            payload.extend(tensor.shape.iter().flat_map(|size| size.to_le_bytes()));
        });
        Ok(())
    }

    fn check_keys(&self) -> Result<(), Refused> {
        let keys = count_varints(self.source.bytes, &self.tensor.keys);
        if keys == self.tensor.count {
            return Ok(());
        }
        Err(describe::other_keys(self.column, keys, self.tensor.count))
    }

    /// Emits the keys as int64. Each must be below the size of the tensor.
    fn emit_keys(&mut self) -> Result<(), Refused> {
        let (bytes, keys, count) = (self.source.bytes, &self.tensor.keys, self.tensor.count);
        let size = self.tensor.size().unwrap_or(u64::MAX).min(MAX_KEY + 1);
        let result = self.out.field_made(|payload| {
            let from = payload.len();
            append_varints(bytes, keys, count, payload, u64::to_le_bytes)?;
            let mut keys = payload[from..].as_chunks().0.iter().map(|key| u64::from_le_bytes(*key));
            Ok(keys.find(|key| *key >= size))
        });
        match result.map_err(|error| Refused::invalid(error, self.source))? {
            Some(key) => Err(describe::key_outside(self.column, key, size)),
            None => Ok(()),
        }
    }

    /// Emits a sparse tensor as one array with its zeros.
    fn emit_with_zeros(&mut self, scalar: Scalar, shape: &[u32]) -> Result<(), Refused> {
        let (tensor, column, bytes) = (self.tensor, self.column, self.source.bytes);
        let field_size = shape.iter().fold(1_u64, |all, size| all.saturating_mul(u64::from(*size)));
        let size = match tensor.size() {
            None if field_size > 0 => field_size,
            None => return Err(describe::no_shape(column)),
            Some(size) => size,
        };
        let right = usize::try_from(size).is_ok_and(|size| shape_accepts(shape, size));
        if !right || !self.dense {
            return Err(self.refuse());
        }
        let width = if scalar == Scalar::Float64 { 8 } else { 4 };
        let length = size.saturating_mul(width);
        if length > self.max_record {
            return Err(describe::too_large(column, length, self.max_record));
        }
        self.check_keys()?;
        let values = values(tensor, scalar, self.source)?;
        let (width, mut outside) = (width as usize, None);
        let result = self.out.field_made(|payload| {
            let from = payload.len();
            payload.resize(from + length as usize, 0);
            let mut values = values.chunks_exact(width);
            each_varint(bytes, &tensor.keys, |key| match values.next() {
                Some(value) if key < size => {
                    let at = from + key as usize * width;
                    payload[at..at + width].copy_from_slice(value);
                }
                _ => outside = outside.or(Some(key)),
            })
        });
        result.map_err(|error| Refused::invalid(error, self.source))?;
        outside.map_or(Ok(()), |key| Err(describe::key_outside(column, key, size)))
    }
}
