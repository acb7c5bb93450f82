//! Arrays of numbers, in blocks: most have only numbers of the same form, that is with the same first
//! byte. Then the place of each is known without a look at the one before, which is several times as
//! fast.

use crate::format::{self, SIZES};
use crate::numbers::NumberType;

/// Numbers of a block.
const BLOCK: usize = 4;
/// Numbers of one byte of a block.
const SMALL_BLOCK: usize = 8;

/// Skips values of the first bytes that tell the size. They start at `at`, and there are `left`.
/// Returns where the next one starts, and how many are left.
///
/// It first skips blocks of values of the same form, then some values one by one. A try for blocks at
/// each value would take longer than it saves.
#[inline]
pub(crate) fn skip(chunk: &[u8], mut at: usize, mut left: u64) -> (usize, u64) {
    let size_at = |at: usize| chunk.get(at).map_or(0, |first| SIZES[usize::from(*first)]);
    let size = size_at(at);
    let skipped = match size {
        1 => skip_small(&chunk[at..], left),
        2 => skip_blocks::<2>(&chunk[at..], left),
        3 => skip_blocks::<3>(&chunk[at..], left),
        5 => skip_blocks::<5>(&chunk[at..], left),
        9 => skip_blocks::<9>(&chunk[at..], left),
        _ => 0,
    };
    at += skipped as usize * usize::from(size);
    left -= skipped;
    for _ in 0..left.min(SMALL_BLOCK as u64) {
        let size = size_at(at);
        if size == 0 {
            break;
        }
        at += usize::from(size);
        left -= 1;
    }
    (at, left)
}

fn skip_blocks<const SIZE: usize>(bytes: &[u8], left: u64) -> u64 {
    let (first, mut at, mut skipped) = (bytes[0], 0, 0);
    while skipped + SMALL_BLOCK as u64 <= left {
        let Some(block) = bytes.get(at..at + SMALL_BLOCK * SIZE) else { break };
        // Without a branch for each.
        if !(0..SMALL_BLOCK).fold(true, |same, index| same & (block[index * SIZE] == first)) {
            break;
        }
        at += block.len();
        skipped += SMALL_BLOCK as u64;
    }
    skipped
}

/// Skips integers from 0 to 127.
fn skip_small(bytes: &[u8], left: u64) -> u64 {
    let blocks = bytes.as_chunks().0.iter().take((left / SMALL_BLOCK as u64) as usize);
    let small = blocks.take_while(|block| are_small(block));
    (SMALL_BLOCK * small.count()) as u64
}

/// Whether these are all integers from 0 to 127.
#[inline(always)]
fn are_small(block: &[u8; SMALL_BLOCK]) -> bool {
    u64::from_le_bytes(*block) & 0x8080_8080_8080_8080 == 0
}

/// Converts numbers from `at` on into `places`, as long as there are blocks of the same form whose
/// numbers are of this type. Returns how many were converted.
pub(crate) fn convert(
    number_type: NumberType,
    chunk: &[u8],
    at: usize,
    places: &mut [u8],
) -> usize {
    let Some(bytes) = chunk.get(at..).filter(|bytes| !bytes.is_empty()) else { return 0 };
    let first = bytes[0];
    let to = Places { bytes: places, width: number_type.width() };
    match number_type {
        NumberType::Integer { low, high, .. } => match first {
            0x00..=0x7f => convert_small(bytes, to),
            0xcc | 0xd0 => convert_integers::<2>(bytes, to, low, high),
            0xcd | 0xd1 => convert_integers::<3>(bytes, to, low, high),
            0xce | 0xd2 => convert_integers::<5>(bytes, to, low, high),
            0xcf | 0xd3 => convert_integers::<9>(bytes, to, low, high),
            _ => 0,
        },
        NumberType::Float32 => match first {
            0xca => convert_blocks::<5>(bytes, to, |word| (word >> 32, true)),
            0xcb => convert_blocks::<9>(bytes, to, |word| {
                let narrow = f64::from_bits(word) as f32;
                (narrow.to_bits().into(), narrow.is_finite())
            }),
            _ => 0,
        },
        NumberType::Float64 => match first {
            0xca => convert_blocks::<5>(bytes, to, |word| {
                let value = f32::from_bits((word >> 32) as u32);
                (f64::from(value).to_bits(), !value.is_nan())
            }),
            0xcb => convert_blocks::<9>(bytes, to, |word| (word, true)),
            _ => 0,
        },
        NumberType::Float16 | NumberType::Bfloat16 => 0,
    }
}

/// Where numbers are written to.
struct Places<'a> {
    bytes: &'a mut [u8],
    /// Bytes of a number.
    width: usize,
}

impl Places<'_> {
    /// Writes numbers to their places, of which the first has this index. Returns false if there are
    /// fewer places.
    #[inline(always)]
    fn write<const N: usize>(&mut self, index: usize, numbers: [u64; N]) -> bool {
        match self.width {
            1 => self.write_as::<1, N>(index, numbers),
            2 => self.write_as::<2, N>(index, numbers),
            4 => self.write_as::<4, N>(index, numbers),
            _ => self.write_as::<8, N>(index, numbers),
        }
    }

    #[inline(always)]
    fn write_as<const WIDTH: usize, const N: usize>(
        &mut self,
        index: usize,
        numbers: [u64; N],
    ) -> bool {
        let places = self.bytes.get_mut(index * WIDTH..(index + N) * WIDTH);
        let Some(places) = places else { return false };
        for (place, bits) in places.as_chunks_mut::<WIDTH>().0.iter_mut().zip(numbers) {
            place.copy_from_slice(&bits.to_le_bytes()[..WIDTH]);
        }
        true
    }
}

/// Integers from 0 to 127 fit into all types.
fn convert_small(bytes: &[u8], mut to: Places) -> usize {
    let mut done = 0;
    for block in bytes.as_chunks::<SMALL_BLOCK>().0 {
        if !are_small(block) || !to.write(done, block.map(u64::from)) {
            break;
        }
        done += SMALL_BLOCK;
    }
    done
}

/// Converts integers of SIZE bytes that are from `low` to `high`.
fn convert_integers<const SIZE: usize>(bytes: &[u8], to: Places, low: i64, high: u64) -> usize {
    let unused = 64 - 8 * (SIZE as u32 - 1);
    // The bit of the sign, and the range of the integers that have this form.
    let (sign, low, high) = match bytes[0] {
        0xd0.. => (1 << (63 - unused), low as u64, high.min(i64::MAX as u64)),
        _ => (0, 0, high),
    };
    let count_minus_one = high.wrapping_sub(low);
    convert_blocks::<SIZE>(bytes, to, |word| {
        // Extends the sign.
        let bits = ((word >> unused) ^ sign).wrapping_sub(sign);
        (bits, bits.wrapping_sub(low) <= count_minus_one)
    })
}

/// Converts numbers of SIZE bytes. `number` gets the 8 bytes after the first one, big-endian. It
/// returns the bits of the number, and whether it is one of the type.
#[inline(always)]
fn convert_blocks<const SIZE: usize>(
    bytes: &[u8],
    mut to: Places,
    number: impl Fn(u64) -> (u64, bool),
) -> usize {
    let (first, mut at, mut done) = (bytes[0], 0, 0);
    // The last number is read with the bytes after it, too.
    while let Some(block) = bytes.get(at..at + (BLOCK - 1) * SIZE + 9) {
        let (mut numbers, mut are_fit) = ([0; BLOCK], true);
        // Without a branch for each.
        for (index, place) in numbers.iter_mut().enumerate() {
            let [found, data @ ..] = block[index * SIZE..].first_chunk::<9>().expect("nine bytes");
            let (bits, is_fit) = number(format::big_endian(*data));
            *place = bits;
            are_fit &= is_fit & (*found == first);
        }
        if !are_fit || !to.write(done, numbers) {
            break;
        }
        at += BLOCK * SIZE;
        done += BLOCK;
    }
    done
}
