//! Arrays of numbers, in blocks: in most arrays all numbers have the same form, that is, the same
//! first byte. The position of each is known then without reading the one before, which is several
//! times as fast.

use crate::format::{self, SIZES};
use crate::numbers::NumberType;

/// Number of numbers of a block.
const BLOCK: usize = 4;
/// Number of one-byte numbers of a block.
const SMALL_BLOCK: usize = 8;
/// Number of numbers that are read one by one before blocks are tried again. An attempt at each
/// number would take longer than it saves.
const SINGLES: usize = 32;

/// Skips values whose first byte determines their size. They start at `at`; `left` is their number.
/// Returns the start of the next one, and the number of remaining ones.
///
/// It first skips blocks of values of the same form, then some values one by one.
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
    for _ in 0..left.min(SINGLES as u64) {
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
        // There is no branch for each value.
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

/// Converts numbers from `at` on into `places`: first blocks of the same form, then some integers
/// one by one. Returns the number of converted ones, and the position of the next number. It
/// converts none if a number is not of the type, if floats have several forms, and directly before
/// the end of the chunk.
pub(crate) fn convert(
    number_type: NumberType,
    chunk: &[u8],
    at: usize,
    places: &mut [u8],
) -> (usize, usize) {
    let Some(&first) = chunk.get(at) else { return (0, at) };
    let bytes = &chunk[at..];
    let done = match number_type {
        NumberType::Integer { low, high, width } => {
            return match width {
                1 => convert_integers::<1>(chunk, at, places, low, high),
                2 => convert_integers::<2>(chunk, at, places, low, high),
                4 => convert_integers::<4>(chunk, at, places, low, high),
                _ => convert_integers::<8>(chunk, at, places, low, high),
            };
        }
        NumberType::Float32 => match first {
            0xca => convert_blocks::<5, 4>(bytes, places, |word| (word >> 32, true)),
            0xcb => convert_blocks::<9, 4>(bytes, places, |word| {
                let narrow = f64::from_bits(word) as f32;
                (narrow.to_bits().into(), narrow.is_finite())
            }),
            _ => 0,
        },
        NumberType::Float64 => match first {
            0xca => convert_blocks::<5, 8>(bytes, places, |word| {
                let value = f32::from_bits((word >> 32) as u32);
                (f64::from(value).to_bits(), !value.is_nan())
            }),
            0xcb => convert_blocks::<9, 8>(bytes, places, |word| (word, true)),
            _ => 0,
        },
        NumberType::Float16 | NumberType::Bfloat16 => 0,
    };
    (done, at + done * usize::from(SIZES[usize::from(first)]))
}

/// Converts integers to WIDTH bytes each: blocks, then up to [`SINGLES`] of any form.
fn convert_integers<const WIDTH: usize>(
    chunk: &[u8],
    mut at: usize,
    places: &mut [u8],
    low: i64,
    high: u64,
) -> (usize, usize) {
    let (bytes, first) = (&chunk[at..], chunk[at]);
    let mut done = match first {
        0x00..=0x7f => convert_small::<WIDTH>(bytes, places),
        0xcc | 0xd0 => convert_in_range::<2, WIDTH>(bytes, places, low, high),
        0xcd | 0xd1 => convert_in_range::<3, WIDTH>(bytes, places, low, high),
        0xce | 0xd2 => convert_in_range::<5, WIDTH>(bytes, places, low, high),
        0xcf | 0xd3 => convert_in_range::<9, WIDTH>(bytes, places, low, high),
        _ => 0,
    };
    at += done * usize::from(SIZES[usize::from(first)]);
    for place in places[done * WIDTH..].as_chunks_mut::<WIDTH>().0.iter_mut().take(SINGLES) {
        let Some(bits) = format::read_integer(chunk, at, low, high) else { break };
        *place = bytes_of(bits);
        at += usize::from(SIZES[usize::from(chunk[at])]);
        done += 1;
    }
    (done, at)
}

/// Integers from 0 to 127 fit into all types.
fn convert_small<const WIDTH: usize>(bytes: &[u8], places: &mut [u8]) -> usize {
    let blocks = bytes.as_chunks::<SMALL_BLOCK>().0.iter();
    let mut done = 0;
    for (block, to) in blocks.zip(places.chunks_exact_mut(SMALL_BLOCK * WIDTH)) {
        if !are_small(block) {
            break;
        }
        for (place, number) in to.as_chunks_mut::<WIDTH>().0.iter_mut().zip(block) {
            *place = bytes_of(u64::from(*number));
        }
        done += SMALL_BLOCK;
    }
    done
}

/// Converts integers of SIZE bytes that are from `low` to `high`.
fn convert_in_range<const SIZE: usize, const WIDTH: usize>(
    bytes: &[u8],
    places: &mut [u8],
    low: i64,
    high: u64,
) -> usize {
    let unused = 64 - 8 * (SIZE as u32 - 1);
    // The bit of the sign, and the range of the integers that have this form.
    let (sign, low, high) = match bytes[0] {
        0xd0.. => (1 << (63 - unused), low as u64, high.min(i64::MAX as u64)),
        _ => (0, 0, high),
    };
    let count_minus_one = high.wrapping_sub(low);
    convert_blocks::<SIZE, WIDTH>(bytes, places, |word| {
        // Extends the sign.
        let bits = ((word >> unused) ^ sign).wrapping_sub(sign);
        (bits, bits.wrapping_sub(low) <= count_minus_one)
    })
}

/// Converts numbers of SIZE bytes to WIDTH bytes each. `number` gets the 8 bytes after the first
/// one, big-endian. It returns the bits of the number, and whether it has the type.
#[inline(always)]
fn convert_blocks<const SIZE: usize, const WIDTH: usize>(
    bytes: &[u8],
    places: &mut [u8],
    number: impl Fn(u64) -> (u64, bool),
) -> usize {
    let (first, mut at, mut done) = (bytes[0], 0, 0);
    for to in places.chunks_exact_mut(BLOCK * WIDTH) {
        // The last number is read together with the bytes after it.
        let Some(block) = bytes.get(at..at + (BLOCK - 1) * SIZE + 9) else { break };
        let mut are_fit = true;
        // There is no branch for each value. A block that does not fit is written again.
        for (index, place) in to.as_chunks_mut::<WIDTH>().0.iter_mut().enumerate() {
            let [found, data @ ..] = block[index * SIZE..].first_chunk::<9>().expect("nine bytes");
            let (bits, is_fit) = number(format::big_endian(*data));
            *place = bytes_of(bits);
            are_fit &= is_fit & (*found == first);
        }
        if !are_fit {
            break;
        }
        at += BLOCK * SIZE;
        done += BLOCK;
    }
    done
}

/// The low bytes of a number.
#[inline(always)]
fn bytes_of<const WIDTH: usize>(bits: u64) -> [u8; WIDTH] {
    *bits.to_le_bytes().first_chunk().expect("at most eight bytes")
}
