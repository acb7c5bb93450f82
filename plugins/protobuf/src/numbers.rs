//! Lists of numbers, packed or not: where they stand, how many they are, and their values.

use crate::reader::{What, varint};
use crate::{Entry, Fault, Pieces, Wire};

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

/// How many varints a list has.
#[inline]
pub fn count_varints(bytes: &[u8], list: &Pieces) -> usize {
    list.iter().map(|piece| bytes[piece].iter().filter(|byte| **byte < 0x80).count()).sum()
}

/// Gives each number of a list of varints to `take`.
#[inline]
pub fn each_varint(bytes: &[u8], list: &Pieces, mut take: impl FnMut(u64)) -> Result<(), Fault> {
    for piece in list.iter() {
        let (bytes, mut at) = (&bytes[..piece.end], piece.start);
        while at < bytes.len() {
            let (value, next) = varint(bytes, at)?;
            take(value);
            at = next;
        }
    }
    Ok(())
}
