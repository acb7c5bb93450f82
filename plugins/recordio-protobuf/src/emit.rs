//! From a record that was read to the fields of one that is emitted.
//!
//! A tensor of float32 that lies in one piece at a multiple of 4 bytes stays where it is: RecordIO
//! aligns records to that, SageMaker's writer the tensors in them, and numpy takes them as they lie.
//! Everything else is copied: float64 would be aligned by chance only, int32 stands as varints.

use std::borrow::Cow;
use std::ops::Range;

use pipemill_parsing::field_spec::holds;
use pipemill_parsing::protobuf::{append_varints, count_varints, each_varint};
use pipemill_plugin::{Records, Scalar};

use crate::describe::{self, Refused};
use crate::layout::{Form, Layout};
use crate::record::Record;
use crate::settings::{Column, Settings};
use crate::tensor::Tensor;

/// The bytes that a record was read from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) bytes: &'a [u8],
    /// Where the record starts in them.
    pub(crate) base: usize,
    /// Whether they are the chunk, so that fields can stay there.
    pub(crate) in_chunk: bool,
}

/// Emits the fields of a record.
#[inline]
pub(crate) fn record(
    settings: &Settings,
    layout: &Layout,
    record: &Record,
    source: &Source,
    max_record: u64,
    out: &mut Records,
) -> Result<(), Refused> {
    let columns = settings.columns.iter().zip(&layout.forms).zip(&record.tensors);
    for ((column, form), tensor) in columns {
        let dense = settings.dense;
        let mut to = To { column, form, tensor, record, source, dense, max_record, out };
        to.emit()?;
    }
    let texts =
        [("uid", settings.uid, &record.uid), ("metadata", settings.metadata, &record.metadata)];
    for (name, wanted, place) in texts {
        match place {
            _ if !wanted => {}
            None => out.absent(),
            Some(place) => text(name, place, source, out)?,
        }
    }
    Ok(())
}

fn text(
    name: &str,
    place: &Range<usize>,
    source: &Source,
    out: &mut Records,
) -> Result<(), Refused> {
    let bytes = &source.bytes[place.clone()];
    if let Err(error) = str::from_utf8(bytes) {
        return Err(describe::no_text(name, bytes[error.valid_up_to()], error.valid_up_to()));
    }
    put(place.clone(), source, out);
    Ok(())
}

/// Emits a field that lies there.
#[inline(always)]
fn put(place: Range<usize>, source: &Source, out: &mut Records) {
    if source.in_chunk {
        out.field(place);
    } else {
        out.field_bytes(&source.bytes[place]);
    }
}

/// The elements of a tensor as they stand in memory; in the input, if they stand there so.
fn values<'a>(
    tensor: &Tensor,
    scalar: Scalar,
    source: &Source<'a>,
) -> Result<Cow<'a, [u8]>, Refused> {
    if let Some(place) = tensor.values.single()
        && scalar != Scalar::Int32
    {
        return Ok(Cow::Borrowed(&source.bytes[place]));
    }
    let mut values = Vec::new();
    let done = tensor.append_to(source.bytes, &mut values);
    done.map_err(|fault| Refused::fault(fault, source))?;
    Ok(Cow::Owned(values))
}

/// A column on its way into a record.
struct To<'a> {
    column: &'a Column,
    form: &'a Form,
    tensor: &'a Tensor,
    record: &'a Record,
    source: &'a Source<'a>,
    /// Whether sparse tensors are wanted with their zeros.
    dense: bool,
    max_record: u64,
    out: &'a mut Records,
}

impl To<'_> {
    #[inline]
    fn emit(&mut self) -> Result<(), Refused> {
        if self.tensor.scalar.is_none() && self.column.optional {
            let fields = if matches!(self.form, Form::Sparse(_)) { 3 } else { 1 };
            (0..fields).for_each(|_| self.out.absent());
            return Ok(());
        }
        match self.form {
            Form::Nothing if self.tensor.scalar.is_none() => Ok(()),
            Form::Bytes if self.tensor.scalar == Some(Scalar::Bytes) => self.emit_bytes(),
            Form::Dense(scalar, shape) if self.tensor.scalar == Some(*scalar) => {
                self.emit_dense(*scalar, shape)
            }
            Form::Sparse(scalar) if self.tensor.scalar == Some(*scalar) => self.emit_sparse(),
            _ => Err(self.refuse()),
        }
    }

    #[cold]
    fn refuse(&self) -> Refused {
        describe::unlike(self.column, self.form, self.tensor, self.record, self.source.bytes)
    }

    fn emit_bytes(&mut self) -> Result<(), Refused> {
        match self.tensor.values.single() {
            Some(place) if self.tensor.count == 1 => {
                put(place, self.source, self.out);
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
        if !holds(shape, tensor.count) || !tensor.shape.is_empty() && !self.says(shape) {
            return Err(self.refuse());
        }
        match tensor.values.single() {
            Some(place)
                if scalar == Scalar::Float32
                    && self.source.in_chunk
                    && place.start.is_multiple_of(4)
                    && !place.is_empty() =>
            {
                self.out.field(place);
                Ok(())
            }
            _ => self.emit_values(),
        }
    }

    /// Whether the shape that the tensor says it has is right and no other than this one.
    fn says(&self, shape: &[u32]) -> bool {
        let said = &self.tensor.shape;
        let same = said.len() == shape.len()
            && said.iter().zip(shape).all(|(said, size)| *size == 0 || *said == u64::from(*size));
        self.tensor.size() == Some(self.tensor.count as u64) && (said.len() == 1 || same)
    }

    fn emit_values(&mut self) -> Result<(), Refused> {
        let (tensor, bytes) = (self.tensor, self.source.bytes);
        let done = self.out.field_made(|payload| tensor.append_to(bytes, payload));
        done.map_err(|fault| Refused::fault(fault, self.source))
    }

    fn emit_sparse(&mut self) -> Result<(), Refused> {
        let tensor = self.tensor;
        // One without an element and without a shape may be either.
        if !tensor.is_sparse() && tensor.count > 0 {
            return Err(self.refuse());
        }
        self.check_keys()?;
        self.emit_keys()?;
        self.emit_values()?;
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

    fn emit_keys(&mut self) -> Result<(), Refused> {
        let (bytes, keys, count) = (self.source.bytes, &self.tensor.keys, self.tensor.count);
        let done = self
            .out
            .field_made(|payload| append_varints(bytes, keys, count, payload, u64::to_le_bytes));
        done.map_err(|fault| Refused::fault(fault, self.source))
    }

    /// A sparse tensor with its zeros.
    fn emit_with_zeros(&mut self, scalar: Scalar, shape: &[u32]) -> Result<(), Refused> {
        let (tensor, column, bytes) = (self.tensor, self.column, self.source.bytes);
        let told: u64 = shape.iter().map(|size| u64::from(*size)).product();
        let size = match tensor.size() {
            None if told > 0 => told,
            None => return Err(describe::no_shape(column)),
            Some(size) => size,
        };
        let right = usize::try_from(size).is_ok_and(|size| holds(shape, size));
        if !right || !self.dense {
            return Err(self.refuse());
        }
        let width = if scalar == Scalar::Float64 { 8 } else { 4 };
        let wanted = size.saturating_mul(width);
        if wanted > self.max_record {
            return Err(describe::too_large(column, wanted, self.max_record));
        }
        self.check_keys()?;
        let values = values(tensor, scalar, self.source)?;
        let (width, mut outside) = (width as usize, None);
        let done = self.out.field_made(|payload| {
            let from = payload.len();
            payload.resize(from + wanted as usize, 0);
            let mut values = values.chunks_exact(width);
            each_varint(bytes, &tensor.keys, |key| match values.next() {
                Some(value) if key < size => {
                    let at = from + key as usize * width;
                    payload[at..at + width].copy_from_slice(value);
                }
                _ => outside = outside.or(Some(key)),
            })
        });
        done.map_err(|fault| Refused::fault(fault, self.source))?;
        outside.map_or(Ok(()), |key| Err(describe::key_outside(column, key, size)))
    }
}
