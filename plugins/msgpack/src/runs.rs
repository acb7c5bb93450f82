//! Arrays of numbers, in blocks: most have only numbers of the same form, that is with the same first
//! byte. Then the place of each is known without a look at the one before, which is several times as
//! fast.

use crate::format;
use crate::numbers::{NumberType, is_between, narrowed, widened};

/// Numbers of a block.
const BLOCK: usize = 4;
/// Bytes after the place of the last number: each is written with 8 bytes.
pub(crate) const SLACK: usize = 7;
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
/// numbers are of this type. Returns how many were converted, which are at most `count`. `places` has
/// [`SLACK`] bytes more than the numbers need.
pub(crate) fn convert(
    number_type: NumberType,
    chunk: &[u8],
    at: usize,
    places: &mut [u8],
    count: usize,
) -> usize {
    let Some(bytes) = chunk.get(at..).filter(|bytes| !bytes.is_empty()) else { return 0 };
    let first = bytes[0];
    let to = Places { bytes: places, count, width: number_type.width() };
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
            0xca => convert_blocks::<5>(bytes, to, |word| Some(word >> 32)),
            0xcb => convert_blocks::<9>(bytes, to, |word| narrowed(f64::from_bits(word))),
            _ => 0,
        },
        NumberType::Float64 => match first {
            0xca => convert_blocks::<5>(bytes, to, |word| {
                Some(widened(f32::from_bits((word >> 32) as u32)))
            }),
            0xcb => convert_blocks::<9>(bytes, to, Some),
            _ => 0,
        },
        NumberType::Float16 | NumberType::Bfloat16 => 0,
    }
}

/// Where numbers are written to.
struct Places<'a> {
    bytes: &'a mut [u8],
    /// How many numbers have a place.
    count: usize,
    /// Bytes of a number.
    width: usize,
}

impl Places<'_> {
    /// The places of N numbers, of which the first is `index`, with the slack after them.
    #[inline(always)]
    fn block<const N: usize>(&mut self, index: usize) -> Option<&mut [u8]> {
        if index + N > self.count {
            return None;
        }
        let start = index * self.width;
        self.bytes.get_mut(start..start + (N - 1) * self.width + 8)
    }
}

/// Writes 8 bytes, of which the next number overwrites those after `width`.
#[inline(always)]
fn write(block: &mut [u8], index: usize, width: usize, bits: u64) -> Option<()> {
    *block.get_mut(index * width..)?.first_chunk_mut()? = bits.to_le_bytes();
    Some(())
}

/// Integers from 0 to 127 fit into all types.
fn convert_small(bytes: &[u8], mut to: Places) -> usize {
    let (width, mut done) = (to.width, 0);
    for block in bytes.as_chunks::<SMALL_BLOCK>().0 {
        if !are_small(block) {
            break;
        }
        let Some(places) = to.block::<SMALL_BLOCK>(done) else { break };
        for (index, byte) in block.iter().enumerate() {
            if write(places, index, width, u64::from(*byte)).is_none() {
                return done;
            }
        }
        done += SMALL_BLOCK;
    }
    done
}

fn convert_integers<const SIZE: usize>(bytes: &[u8], to: Places, low: i64, high: u64) -> usize {
    let unused = 64 - 8 * (SIZE as u32 - 1);
    let is_signed = bytes[0] >= 0xd0;
    convert_blocks::<SIZE>(bytes, to, |word| {
        let bits = if is_signed { (word as i64 >> unused) as u64 } else { word >> unused };
        is_between(bits, is_signed, low, high).then_some(bits)
    })
}

/// Converts numbers of SIZE bytes. `number` gets the 8 bytes after the first one, big-endian.
#[inline(always)]
fn convert_blocks<const SIZE: usize>(
    bytes: &[u8],
    mut to: Places,
    number: impl Fn(u64) -> Option<u64>,
) -> usize {
    let (first, mut at, mut done) = (bytes[0], 0, 0);
    let width = to.width;
    while let Some(places) = to.block::<BLOCK>(done) {
        // The last number is read with the bytes after it, too.
        let Some(block) = bytes.get(at..at + (BLOCK - 1) * SIZE + 9) else { break };
        for index in 0..BLOCK {
            let [found, data @ ..] = block[index * SIZE..].first_chunk::<9>().expect("nine bytes");
            if *found != first {
                return done;
            }
            let bits = number(format::big_endian(*data));
            if bits.and_then(|bits| write(places, index, width, bits)).is_none() {
                return done;
            }
        }
        at += BLOCK * SIZE;
        done += BLOCK;
    }
    done
}
