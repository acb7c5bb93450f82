//! Numbers of a few bits, in runs of one value or packed: levels, indices into dictionaries,
//! booleans.

use std::ops::Range;

use crate::thrift::varint;

/// Largest width of a number in bits.
const MAX_WIDTH: u8 = 32;
/// Bits that are looked at together.
const ONES: u8 = 56;
/// Numbers in a unit of packed ones.
const UNIT: u64 = 8;
/// The bytes of a unit of the widest numbers, and of a word after it.
const UNIT_BYTES: usize = 40;

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
                    unpack(bytes, *bit, self.width, more as usize, out);
                    *bit += more * u64::from(self.width);
                    (*left, count) = (*left - more, count - more as usize);
                }
            }
        }
        Ok(())
    }

    /// The next number, and how often it follows itself: at most `most` times, but not all of them
    /// if that is not known at once.
    pub(crate) fn take_run(&mut self, bytes: &[u8], most: usize) -> Result<(u32, usize), String> {
        loop {
            match &mut self.run {
                Run::Same { left: 0, .. } | Run::Packed { left: 0, .. } => self.begin_run(bytes)?,
                Run::Same { value, left } => {
                    let run = (*left).min(most as u64);
                    *left -= run;
                    return Ok((*value, run as usize));
                }
                Run::Packed { bit, left } => {
                    let value = bits(bytes, *bit, self.width) as u32;
                    let mut run = 1;
                    if self.width == 1 {
                        let word = bits(bytes, *bit, ONES);
                        let same =
                            if value == 1 { word.trailing_ones() } else { word.trailing_zeros() };
                        run = u64::from(same.min(u32::from(ONES))).min(*left).min(most as u64);
                    }
                    *bit += run * u64::from(self.width);
                    *left -= run;
                    return Ok((value, run as usize));
                }
            }
        }
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

/// Appends `count` packed numbers of `width` bits from this bit on.
fn unpack(bytes: &[u8], mut bit: u64, width: u8, mut count: usize, out: &mut Vec<u32>) {
    out.reserve(count);
    // The rest of a unit of which some were taken before.
    while !bit.is_multiple_of(8) && count > 0 {
        out.push(bits(bytes, bit, width) as u32);
        bit += u64::from(width);
        count -= 1;
    }
    while count >= UNIT as usize
        && let Some(unit) = bytes.get((bit / 8) as usize..).and_then(<[u8]>::first_chunk)
    {
        out.extend_from_slice(&unpack_unit(unit, width));
        bit += UNIT * u64::from(width);
        count -= UNIT as usize;
    }
    for _ in 0..count {
        out.push(bits(bytes, bit, width) as u32);
        bit += u64::from(width);
    }
}

/// The numbers of a unit, and bytes after it.
fn unpack_unit(unit: &[u8; UNIT_BYTES], width: u8) -> [u32; UNIT as usize] {
    macro_rules! of_width {
        ($($width:literal)*) => {
            match width {
                $($width => unpack_width::<$width>(unit),)*
                _ => [0; UNIT as usize],
            }
        };
    }
    of_width!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32)
}

/// Where the width is known to the compiler, this has neither loops nor checks.
#[inline]
fn unpack_width<const WIDTH: usize>(unit: &[u8; UNIT_BYTES]) -> [u32; UNIT as usize] {
    let mask = ((1u64 << WIDTH) - 1) as u32;
    std::array::from_fn(|number| {
        let bit = number * WIDTH;
        let word = std::array::from_fn(|byte| unit[bit / 8 + byte]);
        (u64::from_le_bytes(word) >> (bit % 8)) as u32 & mask
    })
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
        let (mut runs, mut in_runs) = (Hybrid::new(0..bytes.len(), width)?, Vec::new());
        while in_runs.len() < count {
            let (value, run) = runs.take_run(bytes, count - in_runs.len())?;
            in_runs.resize(in_runs.len() + run, value);
        }
        assert_eq!(out, in_runs);
        Ok(out)
    }

    #[test]
    fn the_example_of_the_specification() {
        let packed = [0b0000_0011, 0b1000_1000, 0b1100_0110, 0b1111_1010];
        assert_eq!(all(&packed, 3, 8), Ok((0..8).collect()));
    }

    #[test]
    fn single_bits_are_found_in_runs() {
        // 40 units of packed bits: long runs, short ones, and ones that end a byte.
        let mut bytes = vec![81];
        bytes.extend((0..40u8).map(|at| [0xff, 0, 0b1010_0110, 0x0f][usize::from(at / 3 % 4)]));
        let expected: Vec<_> = bytes[1..]
            .iter()
            .flat_map(|byte| (0..8).map(move |bit| u32::from(byte >> bit & 1)))
            .collect();
        assert_eq!(all(&bytes, 1, 320), Ok(expected));
    }

    #[test]
    fn numbers_of_each_width_are_unpacked() {
        let random = |at: u32| (at.wrapping_mul(2_654_435_761) >> 7) as u8;
        for width in 1..=32u8 {
            // 12 units: 96 numbers.
            let packed: Vec<u8> = (0..12 * u32::from(width)).map(random).collect();
            let expected = (0..96).map(|at| bits(&packed, at * u64::from(width), width) as u32);
            let bytes = [&[12 << 1 | 1], &packed[..]].concat();
            let expected: Vec<_> = expected.collect();
            for first in [0, 3, 8] {
                let (mut hybrid, mut out) = (Hybrid::new(0..bytes.len(), width).unwrap(), vec![]);
                hybrid.take(&bytes, first, &mut out).unwrap();
                hybrid.take(&bytes, 96 - first, &mut out).unwrap();
                assert_eq!(out, expected, "{width} {first}");
            }
            assert_eq!(all(&bytes, width, 96), Ok(expected));
        }
    }

    #[test]
    fn runs_follow_each_other() {
        // Five times 9 with 4 bits, then a unit of packed ones.
        assert_eq!(all(&[10, 9, 3, 0x21, 0x43, 0x65, 0x87], 4, 7), Ok(vec![9, 9, 9, 9, 9, 1, 2]));
        assert!(all(&[10, 9], 4, 6).unwrap_err().contains("end before"));
    }
}
