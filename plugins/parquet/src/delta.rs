//! The encoding DELTA_BINARY_PACKED: differences between integers, packed in miniblocks.

use crate::hybrid::bits;
use crate::thrift::{varint, zigzag};

/// Largest number of integers in a block: more than any writer takes.
const MAX_BLOCK: u64 = 1 << 20;

/// A position in such integers. The bytes that it reads are passed to each call.
#[derive(Debug, Clone)]
pub(crate) struct Delta {
    at: usize,
    /// Miniblocks of a block, and integers of a miniblock.
    miniblocks: usize,
    of_miniblock: u64,
    /// Integers that are left in all.
    pub(crate) left: u64,
    /// The next integer, if it is the first.
    is_first: bool,
    value: i64,
    least: i64,
    /// Where the widths of the block's miniblocks lie, and the next of them.
    widths: usize,
    next: usize,
    /// The width of this miniblock, the bit of its next integer, and the integers that are left in
    /// it.
    width: u8,
    bit: u64,
    in_miniblock: u64,
}

impl Delta {
    pub(crate) fn new(bytes: &[u8], at: usize) -> Result<Self, String> {
        let mut delta = Self {
            at,
            miniblocks: 0,
            of_miniblock: 0,
            left: 0,
            is_first: true,
            value: 0,
            least: 0,
            widths: 0,
            next: 0,
            width: 0,
            bit: 0,
            in_miniblock: 0,
        };
        let block = delta.varint(bytes)?;
        let miniblocks = delta.varint(bytes)?;
        delta.left = delta.varint(bytes)?;
        delta.value = zigzag(delta.varint(bytes)?);
        let of_miniblock = block.checked_div(miniblocks).unwrap_or(0);
        let is_whole = of_miniblock > 0 && of_miniblock.is_multiple_of(8);
        if block > MAX_BLOCK || !is_whole || of_miniblock * miniblocks != block {
            return Err(format!(
                "expected blocks that are divided into miniblocks of whole bytes, found blocks of \
                 {block} integers and {miniblocks} miniblocks"
            ));
        }
        (delta.miniblocks, delta.of_miniblock) = (miniblocks as usize, of_miniblock);
        delta.next = delta.miniblocks;
        Ok(delta)
    }

    fn varint(&mut self, bytes: &[u8]) -> Result<u64, String> {
        let (value, size) = varint(bytes.get(self.at..).unwrap_or_default()).ok_or_else(ends)?;
        self.at += size;
        Ok(value)
    }

    /// The next integer.
    pub(crate) fn next(&mut self, bytes: &[u8]) -> Result<i64, String> {
        self.left = self.left.checked_sub(1).ok_or_else(ends)?;
        if self.is_first {
            self.is_first = false;
            return Ok(self.value);
        }
        if self.in_miniblock == 0 {
            self.begin_miniblock(bytes)?;
        }
        let delta = bits(bytes, self.bit, self.width) as i64;
        self.bit += u64::from(self.width);
        self.in_miniblock -= 1;
        self.value = self.value.wrapping_add(self.least).wrapping_add(delta);
        Ok(self.value)
    }

    fn begin_miniblock(&mut self, bytes: &[u8]) -> Result<(), String> {
        if self.next == self.miniblocks {
            self.least = zigzag(self.varint(bytes)?);
            (self.widths, self.next) = (self.at, 0);
            self.at += self.miniblocks;
        }
        self.width = *bytes.get(self.widths + self.next).ok_or_else(ends)?;
        if self.width > 64 {
            let width = self.width;
            return Err(format!("expected differences of at most 64 bits, found {width} bits"));
        }
        self.next += 1;
        self.bit = self.at as u64 * 8;
        self.in_miniblock = self.of_miniblock;
        // The last miniblock has its whole size, too, whatever it holds.
        self.at += (self.of_miniblock / 8) as usize * usize::from(self.width);
        let needed = self.left.saturating_add(1).min(self.of_miniblock);
        let end = (self.bit + needed * u64::from(self.width)).div_ceil(8);
        if end > bytes.len() as u64 { Err(ends()) } else { Ok(()) }
    }

    /// The place after the last integer.
    pub(crate) fn end(&self, bytes: &[u8]) -> Result<usize, String> {
        let mut all = self.clone();
        while all.left > 0 {
            all.next(bytes)?;
        }
        Ok(all.at.min(bytes.len()))
    }
}

fn ends() -> String {
    "its integers end before its values".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_specification() {
        // 7, 5, 3, 1, 2, 3, 4, 5 in a block of 8 with one miniblock: least -2, and 2 bits each.
        let bytes = [8, 1, 8, 14, 3, 2, 0b1100_0000, 0b0011_1111];
        let mut delta = Delta::new(&bytes, 0).unwrap();
        let found: Vec<_> = (0..8).map(|_| delta.next(&bytes).unwrap()).collect();
        assert_eq!(found, [7, 5, 3, 1, 2, 3, 4, 5]);
        delta.next(&bytes).unwrap_err();
        assert_eq!(Delta::new(&bytes, 0).unwrap().end(&bytes), Ok(8));
    }
}
