//! One value of a feature or a label: a tensor of numbers, dense or sparse, or bytes.
//!
//! `Value{oneof: Float32Tensor 2, Float64Tensor 3, Int32Tensor 7, Bytes 9}`, a tensor
//! `{repeated values: 1, repeated uint64 keys: 2, repeated uint64 shape: 3}`, `Bytes{repeated bytes
//! value: 1, string content_type: 2}`. Floats stand as numpy wants them; int32, keys and shape are
//! varints.

use std::ops::Range;

use pipemill_parsing::protobuf::{
    Fault, OneOf, Pieces, Reader, add_fixed, add_varints, append_varints, count_varints,
    each_varint,
};
use pipemill_plugin::Scalar;

/// The fields of `Value`.
const CASES: [u32; 4] = [2, 3, 7, 9];

/// The value that was read last. Kept for its memory.
#[derive(Debug, Default)]
pub(crate) struct Tensor {
    /// Type of an element; `None` where there is no value.
    pub(crate) scalar: Option<Scalar>,
    /// Where the elements lie; of bytes, the last one.
    pub(crate) values: Pieces,
    /// How many there are.
    pub(crate) count: usize,
    /// The keys, as they stand.
    pub(crate) keys: Pieces,
    /// Empty if the tensor does not say it.
    pub(crate) shape: Vec<u64>,
}

impl Tensor {
    /// Reads the value of a map, if it has it.
    #[inline]
    pub(crate) fn read(
        &mut self,
        bytes: &[u8],
        value: Option<&Pieces>,
        one_of: &mut OneOf,
    ) -> Result<(), Fault> {
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

    /// Becomes that of a record whose tensor lies in one piece, as this one's does, at the place that
    /// `moved` says. False if it is another one.
    #[inline(always)]
    pub(crate) fn move_by(
        &mut self,
        bytes: &[u8],
        moved: impl Fn(&Range<usize>) -> Range<usize>,
    ) -> bool {
        let Some(place) = self.values.single() else { return false };
        self.values = moved(&place).into();
        // Of a varint, the bytes tell where it ends. As many in as many bytes end where the others did.
        self.scalar != Some(Scalar::Int32)
            || is_whole(&bytes[moved(&place)]) && count_varints(bytes, &self.values) == self.count
    }

    #[inline]
    fn read_numbers(
        &mut self,
        bytes: &[u8],
        message: &Pieces,
        scalar: Scalar,
    ) -> Result<(), Fault> {
        let mut tensor = Reader::over(bytes, message);
        while let Some(entry) = tensor.next()? {
            match (entry.number, scalar) {
                (1, Scalar::Float32) => add_fixed(&mut self.values, &entry, 4)?,
                (1, Scalar::Float64) => add_fixed(&mut self.values, &entry, 8)?,
                (1, _) => add_varints(bytes, &mut self.values, &entry)?,
                (2, _) => add_varints(bytes, &mut self.keys, &entry)?,
                (3, _) => {
                    let mut shape = Pieces::default();
                    add_varints(bytes, &mut shape, &entry)?;
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

    fn read_bytes(&mut self, bytes: &[u8], message: &Pieces) -> Result<(), Fault> {
        let mut list = Reader::over(bytes, message);
        while let Some(entry) = list.next()? {
            if entry.number == 1 {
                self.values = entry.bytes()?.into();
                self.count += 1;
            }
        }
        Ok(())
    }

    /// How many elements the shape says there are, with the zeros of a sparse tensor.
    pub(crate) fn size(&self) -> Option<u64> {
        let size = || self.shape.iter().fold(1u64, |all, size| all.saturating_mul(*size));
        (!self.shape.is_empty()).then(size)
    }

    /// Whether it is sparse: it has keys, or a shape that is not empty and no values.
    #[inline]
    pub(crate) fn is_sparse(&self) -> bool {
        !self.keys.is_empty() || self.count == 0 && self.shape.iter().any(|size| *size > 0)
    }

    /// Appends the elements as they stand in memory.
    #[inline]
    pub(crate) fn append_to(&self, bytes: &[u8], payload: &mut Vec<u8>) -> Result<(), Fault> {
        if self.scalar != Some(Scalar::Int32) {
            self.values.append_to(bytes, payload);
            return Ok(());
        }
        // Negative numbers stand as 64 bits, of which protobuf takes the lower half.
        let low = |value| (value as u32).to_le_bytes();
        append_varints(bytes, &self.values, self.count, payload, low)
    }
}

/// Whether a list of varints does not end inside one.
fn is_whole(list: &[u8]) -> bool {
    list.last().is_none_or(|last| *last < 0x80)
}
