//! Parses the value of a feature or a label: a tensor of numbers, dense or sparse, or bytes.
//!
//! `Value{oneof: Float32Tensor 2, Float64Tensor 3, Int32Tensor 7, Bytes 9}`, a tensor `{repeated
//! values: 1, repeated uint64 keys: 2, repeated uint64 shape: 3}`, `Bytes{repeated bytes value: 1,
//! string content_type: 2}`. Floats are little-endian, as numpy reads them; int32, keys and shape
//! are varints.

use std::ops::Range;

use pipemill_parsing::protobuf::{
    MessageReader, OneOf, Pieces, WireError, add_fixed, add_varints, append_varints, count_varints,
    each_varint,
};
use pipemill_plugin::Scalar;

/// The field numbers of the oneof in `Value`.
const CASES: [u32; 4] = [2, 3, 7, 9];

/// The last value that was parsed. One value serves all records, so that its memory is reused.
#[derive(Debug, Default)]
pub(crate) struct Tensor {
    /// Type of an element; `None` if the record has no value.
    pub(crate) scalar: Option<Scalar>,
    /// The encoded elements. For a list of bytes, only the last element.
    pub(crate) values: Pieces,
    /// Number of elements.
    pub(crate) count: usize,
    /// The encoded keys of a sparse tensor.
    pub(crate) keys: Pieces,
    /// The shape that the record names; empty if it names none.
    pub(crate) shape: Vec<u64>,
}

impl Tensor {
    /// Parses a value of the map; `None` is a key that the map does not have.
    #[inline]
    pub(crate) fn read(
        &mut self,
        bytes: &[u8],
        value: Option<&Pieces>,
        one_of: &mut OneOf,
    ) -> Result<(), WireError> {
        self.scalar = None;
        let Some(value) = value else { return Ok(()) };
        one_of.read(bytes, value, &CASES)?;
        self.scalar = match one_of.case {
            2 => Some(Scalar::Float32),
            3 => Some(Scalar::Float64),
            7 => Some(Scalar::Int32),
            9 => Some(Scalar::Bytes),
            _ => None,
        };
        self.values.clear();
        self.keys.clear();
        self.shape.clear();
        self.count = 0;
        match self.scalar {
            Some(Scalar::Bytes) => self.read_bytes(bytes, &one_of.message),
            Some(scalar) => self.read_numbers(bytes, &one_of.message, scalar),
            None => Ok(()),
        }
    }

    /// Moves the values to the next record, which matches the template: `moved` gives their new
    /// range. Returns false if the tensor must be parsed anyway.
    #[inline(always)]
    pub(crate) fn move_by(
        &mut self,
        bytes: &[u8],
        moved: impl Fn(&Range<usize>) -> Range<usize>,
    ) -> bool {
        let Some(range) = self.values.single() else { return false };
        self.values = moved(&range).into();
        // The bytes of a varint determine its end, so the new bytes may hold another number of
        // varints, or end inside one.
        self.scalar != Some(Scalar::Int32)
            || is_whole(&bytes[moved(&range)]) && count_varints(bytes, &self.values) == self.count
    }

    #[inline]
    fn read_numbers(
        &mut self,
        bytes: &[u8],
        message: &Pieces,
        scalar: Scalar,
    ) -> Result<(), WireError> {
        let mut tensor = MessageReader::over(bytes, message);
        while let Some(field) = tensor.next()? {
            match (field.number, scalar) {
                (1, Scalar::Float32) => add_fixed(&mut self.values, &field, 4)?,
                (1, Scalar::Float64) => add_fixed(&mut self.values, &field, 8)?,
                (1, _) => add_varints(bytes, &mut self.values, &field)?,
                (2, _) => add_varints(bytes, &mut self.keys, &field)?,
                (3, _) => {
                    let mut shape = Pieces::default();
                    add_varints(bytes, &mut shape, &field)?;
                    each_varint(bytes, &shape, |size| self.shape.push(size))?;
                }
                _ => {}
            }
        }
        self.count = match scalar {
            Scalar::Float32 => self.values.len() / 4,
            Scalar::Float64 => self.values.len() / 8,
            _ => count_varints(bytes, &self.values),
        };
        Ok(())
    }

    fn read_bytes(&mut self, bytes: &[u8], message: &Pieces) -> Result<(), WireError> {
        let mut list = MessageReader::over(bytes, message);
        while let Some(field) = list.next()? {
            if field.number == 1 {
                self.values = field.bytes()?.into();
                self.count += 1;
            }
        }
        Ok(())
    }

    /// The number of elements that the shape gives, with the zeros of a sparse tensor; `None`
    /// without a shape.
    pub(crate) fn size(&self) -> Option<u64> {
        let size = || self.shape.iter().fold(1u64, |all, size| all.saturating_mul(*size));
        (!self.shape.is_empty()).then(size)
    }

    /// Whether the tensor is sparse: it has keys, or a shape but no values.
    #[inline]
    pub(crate) fn is_sparse(&self) -> bool {
        !self.keys.is_empty() || self.count == 0 && self.shape.iter().any(|size| *size > 0)
    }

    /// Appends the elements to `payload`, little-endian.
    #[inline]
    pub(crate) fn append_to(&self, bytes: &[u8], payload: &mut Vec<u8>) -> Result<(), WireError> {
        if self.scalar != Some(Scalar::Int32) {
            self.values.append_to(bytes, payload);
            return Ok(());
        }
        // A negative int32 is encoded as 64 bits; protobuf uses the lower half.
        let low = |value| (value as u32).to_le_bytes();
        append_varints(bytes, &self.values, self.count, payload, low)
    }
}

/// Whether the bytes end with a complete varint.
fn is_whole(list: &[u8]) -> bool {
    list.last().is_none_or(|last| *last < 0x80)
}
