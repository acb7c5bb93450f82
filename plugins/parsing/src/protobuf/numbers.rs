//! Lists of numbers, packed or not: where they stand, how many they are, and their values.

use super::reader::{What, varint};
use super::{Entry, Fault, Pieces, Wire};

/// Adds to a list what stands in one entry of it: numbers of `width` bytes each, 4 or 8.
#[inline(always)]
pub fn add_fixed(list: &mut Pieces, entry: &Entry, width: usize) -> Result<(), Fault> {
    let one = if width == 4 { Wire::Fixed32 } else { Wire::Fixed64 };
    if entry.wire == Wire::Bytes {
        let length = entry.value.len();
        if !length.is_multiple_of(width) {
            return Err(Fault { at: entry.at, what: What::OddLength { length, width } });
        }
    } else if entry.wire != one {
        return Err(entry.wrong_wire(one));
    }
    list.push(entry.value.clone());
    Ok(())
}

/// Adds to a list what stands in one entry of it: varints.
#[inline(always)]
pub fn add_varints(bytes: &[u8], list: &mut Pieces, entry: &Entry) -> Result<(), Fault> {
    if !matches!(entry.wire, Wire::Bytes | Wire::Varint) {
        return Err(entry.wrong_wire(Wire::Varint));
    }
    // So that no number can reach from one piece into the next.
    if bytes[entry.value.clone()].last().is_some_and(|last| *last >= 0x80) {
        return Err(Fault { at: entry.at, what: What::CutVarint });
    }
    list.push(entry.value.clone());
    Ok(())
}

/// How many varints a list made by [`add_varints`] has.
#[inline]
pub fn count_varints(bytes: &[u8], list: &Pieces) -> usize {
    list.iter().map(|piece| bytes[piece].iter().filter(|byte| **byte < 0x80).count()).sum()
}

/// Gives each number of a list made by [`add_varints`] to `take`.
#[inline]
pub fn each_varint(bytes: &[u8], list: &Pieces, mut take: impl FnMut(u64)) -> Result<(), Fault> {
    for piece in list.iter() {
        let bytes = &bytes[..piece.end];
        let mut at = piece.start;
        while at < bytes.len() {
            let word = bytes[at..].first_chunk().map_or(u64::MAX, |word| u64::from_le_bytes(*word));
            let passed = each_short_varint(word, &mut take);
            at += passed;
            if passed == 0 {
                let (value, next) = varint(bytes, at)?;
                take(value);
                at = next;
            }
        }
    }
    Ok(())
}

/// Appends each number of a list made by [`add_varints`], of which there are `count`, as it stands in
/// memory.
#[inline]
pub fn append_varints<const WIDTH: usize>(
    bytes: &[u8],
    list: &Pieces,
    count: usize,
    payload: &mut Vec<u8>,
    number: impl Fn(u64) -> [u8; WIDTH],
) -> Result<(), Fault> {
    let from = payload.len();
    payload.resize(from + WIDTH * count, 0);
    let (slots, _) = payload[from..].as_chunks_mut();
    let mut slots = slots.iter_mut();
    each_varint(bytes, list, |value| {
        if let Some(slot) = slots.next() {
            *slot = number(value);
        }
    })
}

/// Gives each varint that lies whole in these eight bytes to `take`; answers how many bytes they are.
/// Without a branch on their lengths, which nothing can predict where small numbers and large ones are
/// mixed, and without waiting for one to know where the next one starts.
#[inline(always)]
fn each_short_varint(word: u64, take: &mut impl FnMut(u64)) -> usize {
    let mut ends = !word & 0x8080_8080_8080_8080;
    let mut from = 0;
    while ends != 0 {
        let end = ends.trailing_zeros() + 1;
        let one = word >> from & u64::MAX >> (64 - (end - from)) & 0x7f7f_7f7f_7f7f_7f7f;
        // Every eighth bit is a gap; they are closed between pairs of bytes, of twos, of fours.
        let one = one & 0x007f_007f_007f_007f | (one & 0x7f00_7f00_7f00_7f00) >> 1;
        let one = one & 0x0000_3fff_0000_3fff | (one & 0x3fff_0000_3fff_0000) >> 2;
        take(one & 0x0000_0000_0fff_ffff | (one & 0x0fff_ffff_0000_0000) >> 4);
        from = end;
        ends &= ends - 1;
    }
    from as usize / 8
}
