//! Arrays of numbers, in blocks: most have only numbers of the same form, that is with the same first
//! byte. Then the place of each is known without a look at the one before, which is several times as
//! fast.

use crate::format::{self, Number};
use crate::numbers::Target;

/// Numbers of a block.
const BLOCK: usize = 4;
/// Numbers of one byte of a block.
const SMALL_BLOCK: usize = 8;

/// Skips values from `at` on that have the same first byte as the one there, and `size` bytes each.
/// `left` is how many values there are. Returns how many were skipped.
#[inline(always)]
pub(crate) fn skip(chunk: &[u8], at: usize, size: u8, left: u64) -> u64 {
    match size {
        1 => skip_small(&chunk[at..], left),
        2 => skip_blocks::<2>(&chunk[at..], left),
        3 => skip_blocks::<3>(&chunk[at..], left),
        5 => skip_blocks::<5>(&chunk[at..], left),
        9 => skip_blocks::<9>(&chunk[at..], left),
        _ => 0,
    }
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
pub(crate) fn convert<T: Target>(chunk: &[u8], at: usize, places: &mut [u8]) -> usize {
    let Some(bytes) = chunk.get(at..).filter(|bytes| !bytes.is_empty()) else { return 0 };
    match bytes[0] {
        0x00..=0x7f if T::IS_INTEGER => convert_small::<T>(bytes, places),
        0xcc | 0xd0 if T::IS_INTEGER => convert_integers::<T, 2>(bytes, places),
        0xcd | 0xd1 if T::IS_INTEGER => convert_integers::<T, 3>(bytes, places),
        0xce | 0xd2 if T::IS_INTEGER => convert_integers::<T, 5>(bytes, places),
        0xcf | 0xd3 if T::IS_INTEGER => convert_integers::<T, 9>(bytes, places),
        0xca if !T::IS_INTEGER => convert_blocks::<T, 5>(bytes, places, |word| {
            Number::Float32(f32::from_bits((word >> 32) as u32))
        }),
        0xcb if !T::IS_INTEGER => {
            convert_blocks::<T, 9>(bytes, places, |word| Number::Float64(f64::from_bits(word)))
        }
        _ => 0,
    }
}

fn convert_small<T: Target>(bytes: &[u8], places: &mut [u8]) -> usize {
    let (width, mut done) = (size_of::<T::Bytes>(), 0);
    let blocks = places.chunks_exact_mut(SMALL_BLOCK * width);
    for (places, block) in blocks.zip(bytes.as_chunks::<SMALL_BLOCK>().0) {
        if !are_small(block) {
            break;
        }
        for (place, byte) in places.chunks_exact_mut(width).zip(block) {
            let Ok(value) = T::convert(Number::Unsigned(u64::from(*byte))) else { return done };
            place.copy_from_slice(value.as_ref());
        }
        done += SMALL_BLOCK;
    }
    done
}

fn convert_integers<T: Target, const SIZE: usize>(bytes: &[u8], places: &mut [u8]) -> usize {
    let unused = 64 - 8 * (SIZE as u32 - 1);
    if bytes[0] < 0xd0 {
        return convert_blocks::<T, SIZE>(bytes, places, |word| Number::Unsigned(word >> unused));
    }
    convert_blocks::<T, SIZE>(bytes, places, |word| Number::Signed(word as i64 >> unused))
}

/// Converts numbers of SIZE bytes. `number` gets the 8 bytes after the first one, big-endian.
#[inline(always)]
fn convert_blocks<T: Target, const SIZE: usize>(
    bytes: &[u8],
    places: &mut [u8],
    number: impl Fn(u64) -> Number,
) -> usize {
    let (first, mut at, mut done) = (bytes[0], 0, 0);
    let width = size_of::<T::Bytes>();
    for places in places.chunks_exact_mut(BLOCK * width) {
        // The last number is read with the bytes after it, too.
        let Some(block) = bytes.get(at..at + (BLOCK - 1) * SIZE + 9) else { break };
        for (index, place) in places.chunks_exact_mut(width).enumerate() {
            let [found, data @ ..] = block[index * SIZE..].first_chunk::<9>().expect("nine bytes");
            if *found != first {
                return done;
            }
            let Ok(value) = T::convert(number(format::big_endian(*data))) else { return done };
            place.copy_from_slice(value.as_ref());
        }
        at += BLOCK * SIZE;
        done += BLOCK;
    }
    done
}
