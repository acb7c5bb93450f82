//! Numbers of a few bits, in runs of one value or packed: levels, indices into dictionaries,
//! booleans.

use std::ops::Range;

use crate::thrift::varint;

/// Largest width of a number in bits.
const MAX_WIDTH: u8 = 32;
/// Numbers in a unit of packed ones.
const UNIT: u64 = 8;

/// A position in such numbers. The bytes that it reads are passed to each call.
#[derive(Debug, Clone)]
pub(crate) struct Hybrid {
    left: Range<usize>,
    width: u8,
    run: Run,
}

#[derive(Debug, Clone)]
enum Run {
    Same {
        value: u32,
        left: u64,
    },
    /// The next number begins at this bit, counted from the start of the bytes.
    Packed {
        bit: u64,
        left: u64,
    },
}

impl Hybrid {
    /// The numbers in this range of the bytes, each of `width` bits.
    pub(crate) fn new(range: Range<usize>, width: u8) -> Result<Self, String> {
        if width > MAX_WIDTH {
            return Err(format!("expected numbers of at most 32 bits, found {width} bits"));
        }
        Ok(Self { left: range, width, run: Run::Same { value: 0, left: 0 } })
    }

    /// The bits that numbers up to this one take.
    pub(crate) fn width_of(most: u32) -> u8 {
        (u32::BITS - most.leading_zeros()) as u8
    }

    /// Appends the next numbers.
    pub(crate) fn take(
        &mut self,
        bytes: &[u8],
        mut count: usize,
        out: &mut Vec<u32>,
    ) -> Result<(), String> {
        while count > 0 {
            match &mut self.run {
                Run::Same { left: 0, .. } | Run::Packed { left: 0, .. } => self.begin_run(bytes)?,
                Run::Same { value, left } => {
                    let more = (*left).min(count as u64);
                    out.extend(std::iter::repeat_n(*value, more as usize));
                    (*left, count) = (*left - more, count - more as usize);
                }
                Run::Packed { bit, left } => {
                    let more = (*left).min(count as u64);
                    for _ in 0..more {
                        out.push(bits(bytes, *bit, self.width) as u32);
                        *bit += u64::from(self.width);
                    }
                    (*left, count) = (*left - more, count - more as usize);
                }
            }
        }
        Ok(())
    }

    fn begin_run(&mut self, bytes: &[u8]) -> Result<(), String> {
        let rest = bytes.get(self.left.clone()).unwrap_or_default();
        let ends = || "its numbers end before its values".to_owned();
        let (head, size) = varint(rest).ok_or_else(ends)?;
        self.left.start += size;
        let rest = &rest[size..];
        let (value_bytes, count) = (usize::from(self.width.div_ceil(8)), head >> 1);
        if head & 1 == 0 {
            let stored = rest.get(..value_bytes).ok_or_else(ends)?;
            let mut value = [0; 4];
            value[..value_bytes].copy_from_slice(stored);
            self.left.start += value_bytes;
            self.run = Run::Same { value: u32::from_le_bytes(value), left: count };
            return Ok(());
        }
        // The last unit may be cut short.
        let bits_left = rest.len() as u64 * 8;
        let packed = count.saturating_mul(UNIT).min(match self.width {
            0 => u64::MAX,
            width => bits_left / u64::from(width),
        });
        if packed == 0 {
            return Err(ends());
        }
        let bit = self.left.start as u64 * 8;
        let taken = packed.saturating_mul(self.width.into()).div_ceil(8);
        self.left.start += usize::try_from(taken).unwrap_or(rest.len()).min(rest.len());
        self.run = Run::Packed { bit, left: packed };
        Ok(())
    }
}

/// `width` bits from this one on, the lowest first. Bits after the end are 0.
#[inline]
pub(crate) fn bits(bytes: &[u8], bit: u64, width: u8) -> u64 {
    let (at, shift) = ((bit / 8) as usize, (bit % 8) as u32);
    let mut word = [0; 16];
    match bytes.get(at..at + 16) {
        Some(whole) => word.copy_from_slice(whole),
        None => {
            let rest = bytes.get(at..).unwrap_or_default();
            word[..rest.len()].copy_from_slice(rest);
        }
    }
    let value = (u128::from_le_bytes(word) >> shift) as u64;
    if width == 64 { value } else { value & ((1 << width) - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8], width: u8, count: usize) -> Result<Vec<u32>, String> {
        let (mut out, mut one) = (Vec::new(), Hybrid::new(0..bytes.len(), width)?);
        for _ in 0..count {
            one.take(bytes, 1, &mut out)?;
        }
        let mut at_once = Vec::new();
        Hybrid::new(0..bytes.len(), width)?.take(bytes, count, &mut at_once)?;
        assert_eq!(out, at_once);
        Ok(out)
    }

    #[test]
    fn the_example_of_the_specification() {
        let packed = [0b0000_0011, 0b1000_1000, 0b1100_0110, 0b1111_1010];
        assert_eq!(all(&packed, 3, 8), Ok((0..8).collect()));
    }

    #[test]
    fn runs_follow_each_other() {
        // Five times 9 with 4 bits, then a unit of packed ones.
        assert_eq!(all(&[10, 9, 3, 0x21, 0x43, 0x65, 0x87], 4, 7), Ok(vec![9, 9, 9, 9, 9, 1, 2]));
        assert!(all(&[10, 9], 4, 6).unwrap_err().contains("end before"));
    }
}
