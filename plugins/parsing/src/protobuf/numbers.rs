//! Lists of numbers, packed or not: where they are, how many there are, and their values.

use super::reader::{WireErrorKind, varint};
use super::{Pieces, WireError, WireField, WireType};

/// Adds the numbers in one field to a list: one number of `width` bytes (4 or 8), or many packed
/// ones.
///
/// # Errors
/// The field has another wire type, or its length is not a multiple of `width`.
#[inline(always)]
pub fn add_fixed(list: &mut Pieces, field: &WireField, width: usize) -> Result<(), WireError> {
    let one = if width == 4 { WireType::Fixed32 } else { WireType::Fixed64 };
    if field.wire_type == WireType::Bytes {
        let length = field.value.len();
        if !length.is_multiple_of(width) {
            let kind = WireErrorKind::OddLength { length, width };
            return Err(WireError { at: field.at, kind });
        }
    } else if field.wire_type != one {
        return Err(field.wrong_wire_type(one));
    }
    list.push(field.value.clone());
    Ok(())
}

/// Adds the varints in one field to a list: one, or many packed ones.
///
/// # Errors
/// The field has another wire type, or ends inside a varint.
#[inline(always)]
pub fn add_varints(bytes: &[u8], list: &mut Pieces, field: &WireField) -> Result<(), WireError> {
    if !matches!(field.wire_type, WireType::Bytes | WireType::Varint) {
        return Err(field.wrong_wire_type(WireType::Varint));
    }
    // This is checked here so that no varint extends from one piece into the next.
    if bytes[field.value.clone()].last().is_some_and(|last| *last >= 0x80) {
        return Err(WireError { at: field.at, kind: WireErrorKind::CutVarint });
    }
    list.push(field.value.clone());
    Ok(())
}

/// Number of varints in a list made by [`add_varints`].
#[inline]
pub fn count_varints(bytes: &[u8], list: &Pieces) -> usize {
    let count = |piece: &[u8]| {
        let (words, rest) = piece.as_chunks();
        let ends =
            words.iter().map(|word| (!u64::from_le_bytes(*word) & ENDS).count_ones() as usize);
        ends.sum::<usize>() + rest.iter().filter(|byte| **byte < 0x80).count()
    };
    list.iter().map(|piece| count(&bytes[piece])).sum()
}

/// The bit of each byte that is not set in the last byte of a varint.
const ENDS: u64 = 0x8080_8080_8080_8080;

/// Calls `take` with each number of a list made by [`add_varints`].
///
/// # Errors
/// A varint has more than 64 bits.
#[inline]
pub fn each_varint(
    bytes: &[u8],
    list: &Pieces,
    mut take: impl FnMut(u64),
) -> Result<(), WireError> {
    for piece in list.iter() {
        let bytes = &bytes[..piece.end];
        let mut at = piece.start;
        while at < bytes.len() {
            let word = bytes[at..].first_chunk().map_or(u64::MAX, |word| u64::from_le_bytes(*word));
            let length = each_short_varint(word, &mut take);
            at += length;
            if length == 0 {
                let (value, next) = varint(bytes, at)?;
                take(value);
                at = next;
            }
        }
    }
    Ok(())
}

/// Appends each number of a list made by [`add_varints`] to `payload`, as the bytes that `number`
/// makes of it. `count` is the number of varints in the list.
///
/// # Errors
/// A varint has more than 64 bits.
#[inline]
pub fn append_varints<const WIDTH: usize>(
    bytes: &[u8],
    list: &Pieces,
    count: usize,
    payload: &mut Vec<u8>,
    number: impl Fn(u64) -> [u8; WIDTH],
) -> Result<(), WireError> {
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

/// Calls `take` with each varint that is complete in these eight bytes. Returns their total size in
/// bytes.
///
/// There is no branch on the length of a varint, which a processor can't predict if small and large
/// numbers are mixed. It also finds where a varint starts without decoding the one before it.
#[inline(always)]
fn each_short_varint(word: u64, take: &mut impl FnMut(u64)) -> usize {
    let mut ends = !word & ENDS;
    let mut from = 0;
    while ends != 0 {
        let end = ends.trailing_zeros() + 1;
        let one = word >> from & u64::MAX >> (64 - (end - from)) & 0x7f7f_7f7f_7f7f_7f7f;
        // Every eighth bit is a gap. The gaps are closed between bytes, then between pairs of
        // bytes, then between fours.
        let one = one & 0x007f_007f_007f_007f | (one & 0x7f00_7f00_7f00_7f00) >> 1;
        let one = one & 0x0000_3fff_0000_3fff | (one & 0x3fff_0000_3fff_0000) >> 2;
        take(one & 0x0000_0000_0fff_ffff | (one & 0x0fff_ffff_0000_0000) >> 4);
        from = end;
        ends &= ends - 1;
    }
    from as usize / 8
}
