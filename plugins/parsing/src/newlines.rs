//! Finds newlines 64 bytes at a time, for the decoders whose records are lines. The decoder defines
//! what a line is.
//!
//! For lines of 10 to 100 bytes this costs a fraction of a search from each line to the next.
//! Offsets are written eight at a time, even if fewer newlines are left: the inner loop then has a
//! fixed length and the processor rarely mispredicts a branch.

/// Largest number of bytes that [`Newlines::find`] takes at once: the offsets then stay in the L1
/// cache.
pub const PIECE: usize = 2048;
/// Bytes compared together: one bit each in a `u64`.
const BLOCK: usize = 64;
/// Offsets written at once.
const STEP: usize = 8;

/// A buffer for the newlines of one piece of the chunk.
#[derive(Debug)]
pub struct Newlines {
    /// The offsets. The last [`STEP`] are room for writes that reach beyond the last newline.
    offsets: Box<[u32; PIECE + STEP]>,
}

impl Default for Newlines {
    fn default() -> Self {
        Self { offsets: Box::new([0; PIECE + STEP]) }
    }
}

impl Newlines {
    /// A buffer for the newlines of one piece.
    pub fn new() -> Self {
        Self::default()
    }

    /// Offsets of the LF bytes in a piece of at most [`PIECE`] bytes.
    #[inline(always)]
    pub fn find(&mut self, piece: &[u8]) -> &[u32] {
        let mut count = 0;
        let (blocks, tail) = piece.as_chunks();
        for (index, block) in blocks.iter().enumerate() {
            count = self.append(newline_mask(block), index * BLOCK, count);
        }
        if !tail.is_empty() {
            let mut block = [0; BLOCK];
            block[..tail.len()].copy_from_slice(tail);
            count = self.append(newline_mask(&block), piece.len() - tail.len(), count);
        }
        &self.offsets[..count]
    }

    /// Writes the offsets of the set bits of `mask`, whose block starts at `base`, after the first
    /// `count` offsets. Returns the new count. Offsets after the new count have no meaning.
    #[inline(always)]
    fn append(&mut self, mut mask: u64, base: usize, count: usize) -> usize {
        let mut next = count;
        let new_count = count + mask.count_ones() as usize;
        while mask != 0 {
            let Some(slots) = self.offsets[next..].first_chunk_mut::<STEP>() else { break };
            for slot in slots {
                *slot = base as u32 + mask.trailing_zeros();
                mask &= mask.wrapping_sub(1);
            }
            next += STEP;
        }
        new_count
    }
}

/// Bit `i` is set where byte `i` is LF.
#[inline(always)]
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
fn newline_mask(block: &[u8; BLOCK]) -> u64 {
    use std::arch::wasm32::{u8x16, u8x16_bitmask, u8x16_eq, u8x16_splat};

    // It is written out because a vector load needs `unsafe`. It compiles to one load.
    let quarter = |b: &[u8; 16]| {
        let bytes = u8x16(
            b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
            b[14], b[15],
        );
        u64::from(u8x16_bitmask(u8x16_eq(bytes, u8x16_splat(b'\n'))))
    };
    let (quarters, _) = block.as_chunks();
    quarter(&quarters[0])
        | quarter(&quarters[1]) << 16
        | quarter(&quarters[2]) << 32
        | quarter(&quarters[3]) << 48
}

/// Bit `i` is set where byte `i` is LF.
#[inline(always)]
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
fn newline_mask(block: &[u8; BLOCK]) -> u64 {
    // This form lets the compiler vectorize it. First, each LF becomes one bit: bit i for byte i of
    // its group of eight. Then the multiplication adds the bytes of a group in the top byte.
    let mut bits = [0u8; BLOCK];
    for (index, (bit, byte)) in bits.iter_mut().zip(block).enumerate() {
        *bit = if *byte == b'\n' { 1 << (index % 8) } else { 0 };
    }
    let (groups, _) = bits.as_chunks();
    groups.iter().enumerate().fold(0, |mask, (index, group)| {
        let sum = u64::from_le_bytes(*group).wrapping_mul(0x0101_0101_0101_0101) >> 56;
        mask | sum << (8 * index)
    })
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, Newlines, PIECE, newline_mask};

    #[test]
    fn the_mask_has_one_bit_per_newline() {
        assert_eq!(newline_mask(&[b'\n'; BLOCK]), u64::MAX);
        for byte in (0..=u8::MAX).filter(|byte| *byte != b'\n') {
            assert_eq!(newline_mask(&[byte; BLOCK]), 0);
            for place in 0..BLOCK {
                let mut block = [byte; BLOCK];
                block[place] = b'\n';
                assert_eq!(newline_mask(&block), 1 << place, "{byte} around {place}");
            }
        }
    }

    #[test]
    fn a_piece_may_be_all_newlines() {
        let mut newlines = Newlines::new();
        for length in [0, 1, 63, 64, 65, PIECE - 1, PIECE] {
            let all: Vec<u32> = (0..length as u32).collect();
            assert_eq!(newlines.find(&vec![b'\n'; length]), all);
            assert_eq!(newlines.find(&vec![b'.'; length]), []);
        }
    }
}
