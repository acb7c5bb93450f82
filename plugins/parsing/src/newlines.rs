//! Where the newlines of a piece of the chunk are, found 64 bytes at a time: for the decoders whose
//! records are lines. What a line is, is theirs to say.
//!
//! For lines of 10 to 100 bytes this costs a fraction of a search from each line to the next: the
//! places are written down eight at a time whether there are as many or not, so that the processor
//! hardly ever guesses wrong how often a loop runs.

/// Bytes of a piece, at most: the places of its newlines then stay in the first cache.
pub const PIECE: usize = 2048;
/// Bytes looked at together.
const BLOCK: usize = 64;
/// Places written at once.
const STEP: usize = 8;

/// Room for the newlines of one piece.
#[derive(Debug)]
pub struct Newlines {
    places: Box<[u32; PIECE + STEP]>,
}

impl Default for Newlines {
    fn default() -> Self {
        Self { places: Box::new([0; PIECE + STEP]) }
    }
}

impl Newlines {
    /// Room for the newlines of one piece.
    pub fn new() -> Self {
        Self::default()
    }

    /// Places of the newlines in a piece of [`PIECE`] bytes or fewer.
    #[inline(always)]
    pub fn of(&mut self, piece: &[u8]) -> &[u32] {
        let mut count = 0;
        let (blocks, tail) = piece.as_chunks();
        for (index, block) in blocks.iter().enumerate() {
            count = self.note(newlines(block), index * BLOCK, count);
        }
        if !tail.is_empty() {
            let mut block = [0; BLOCK];
            block[..tail.len()].copy_from_slice(tail);
            count = self.note(newlines(&block), piece.len() - tail.len(), count);
        }
        &self.places[..count]
    }

    /// Writes down the newlines of the block at `base` behind the `count` before; answers how many
    /// there are now. What stands behind them has no meaning.
    #[inline(always)]
    fn note(&mut self, mut found: u64, base: usize, count: usize) -> usize {
        let mut next = count;
        let after = count + found.count_ones() as usize;
        while found != 0 {
            let Some(slots) = self.places[next..].first_chunk_mut::<STEP>() else { break };
            for slot in slots {
                *slot = base as u32 + found.trailing_zeros();
                found &= found.wrapping_sub(1);
            }
            next += STEP;
        }
        after
    }
}

/// Bit `i` is set where byte `i` is LF.
#[inline(always)]
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
fn newlines(block: &[u8; BLOCK]) -> u64 {
    use std::arch::wasm32::{u8x16, u8x16_bitmask, u8x16_eq, u8x16_splat};

    // Spelled out because a vector load takes `unsafe`; it compiles to one load.
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
fn newlines(block: &[u8; BLOCK]) -> u64 {
    // In a form that the compiler turns into vector instructions: first each byte's own bit of its
    // group of eight, then the sum of each group, which the multiplication puts into the top byte.
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
    use super::{BLOCK, Newlines, PIECE, newlines};

    #[test]
    fn one_bit_a_newline() {
        assert_eq!(newlines(&[b'\n'; BLOCK]), u64::MAX);
        for byte in (0..=u8::MAX).filter(|byte| *byte != b'\n') {
            assert_eq!(newlines(&[byte; BLOCK]), 0);
            for place in 0..BLOCK {
                let mut block = [byte; BLOCK];
                block[place] = b'\n';
                assert_eq!(newlines(&block), 1 << place, "{byte} around {place}");
            }
        }
    }

    #[test]
    fn as_many_as_there_can_be() {
        let mut found = Newlines::new();
        for length in [0, 1, 63, 64, 65, PIECE - 1, PIECE] {
            let all: Vec<u32> = (0..length as u32).collect();
            assert_eq!(found.of(&vec![b'\n'; length]), all);
            assert_eq!(found.of(&vec![b'.'; length]), []);
        }
    }
}
