//! How MessagePack encodes a value: a first byte, often a length, then data or other values.
//!
//! The source is <https://github.com/msgpack/msgpack/blob/master/spec.md>.

use std::ops::Range;

/// Largest nesting depth of arrays and maps: that of Python's msgpack.
pub(crate) const MAX_DEPTH: usize = 1024;

/// The byte that starts no value.
pub(crate) const NEVER_USED: u8 = 0xc1;
/// The byte of nil.
pub(crate) const NIL: u8 = 0xc0;

/// The size in bytes of a value whose first byte determines it; 0 for other first bytes.
pub(crate) const SIZES: [u8; 256] = {
    let mut sizes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        sizes[byte] = match byte {
            // Integers of one byte, nil, false, true.
            0x00..=0x7f | 0xe0..=0xff | 0xc0 | 0xc2 | 0xc3 => 1,
            // fixstr.
            0xa0..=0xbf => 1 + (byte as u8 & 0x1f),
            // Integers and floats.
            0xcc | 0xd0 => 2,
            0xcd | 0xd1 => 3,
            0xce | 0xd2 | 0xca => 5,
            0xcf | 0xd3 | 0xcb => 9,
            // fixext: a byte for the type.
            0xd4 => 2 + 1,
            0xd5 => 2 + 2,
            0xd6 => 2 + 4,
            0xd7 => 2 + 8,
            0xd8 => 2 + 16,
            _ => 0,
        };
        byte += 1;
    }
    sizes
};

/// The start of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Head {
    /// A value without inner values: its size in bytes.
    Leaf(u64),
    /// An array or a map.
    Container(Container),
    /// [`NEVER_USED`].
    NeverUsed,
    /// The bytes end inside the head, which has this many bytes.
    Cut(usize),
}

/// The start of an array or a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Container {
    /// Number of bytes before the first inner value.
    pub(crate) head: usize,
    /// Number of inner values. A map has two for each entry.
    pub(crate) values: u64,
    /// Whether it is a map.
    pub(crate) is_map: bool,
}

/// Parses the head of the value at the start of `bytes`, which has at least one byte.
#[inline]
pub(crate) fn head(bytes: &[u8]) -> Head {
    let first = bytes[0];
    let size = SIZES[usize::from(first)];
    if size != 0 {
        return Head::Leaf(size.into());
    }
    match first {
        0x80..=0x8f => map(1, (first & 0x0f).into()),
        0x90..=0x9f => array(1, (first & 0x0f).into()),
        // bin and str of any length.
        0xc4 | 0xd9 => sized::<1>(bytes, 0),
        0xc5 | 0xda => sized::<2>(bytes, 0),
        0xc6 | 0xdb => sized::<4>(bytes, 0),
        // ext of any length. Its type follows the length.
        0xc7 => sized::<1>(bytes, 1),
        0xc8 => sized::<2>(bytes, 1),
        0xc9 => sized::<4>(bytes, 1),
        0xdc => number::<2>(bytes).map_or(Head::Cut(3), |count| array(3, count)),
        0xdd => number::<4>(bytes).map_or(Head::Cut(5), |count| array(5, count)),
        0xde => number::<2>(bytes).map_or(Head::Cut(3), |count| map(3, count)),
        0xdf => number::<4>(bytes).map_or(Head::Cut(5), |count| map(5, count)),
        _ => Head::NeverUsed,
    }
}

/// Whether an array or a map starts with this byte.
#[inline(always)]
pub(crate) fn is_container(first: u8) -> bool {
    matches!(first, 0x80..=0x9f | 0xdc..=0xdf)
}

fn array(head: usize, count: u64) -> Head {
    Head::Container(Container { head, values: count, is_map: false })
}

fn map(head: usize, count: u64) -> Head {
    Head::Container(Container { head, values: 2 * count, is_map: true })
}

/// A leaf with a length of N bytes, and with `more` bytes between the length and the data.
#[inline(always)]
fn sized<const N: usize>(bytes: &[u8], more: usize) -> Head {
    let head = 1 + N + more;
    number::<N>(bytes).map_or(Head::Cut(head), |length| Head::Leaf(head as u64 + length))
}

/// The big-endian number of N bytes after the first byte.
#[inline(always)]
fn number<const N: usize>(bytes: &[u8]) -> Option<u64> {
    let bytes: &[u8; N] = bytes.get(1..)?.first_chunk()?;
    Some(bytes.iter().fold(0, |high, low| high << 8 | u64::from(*low)))
}

/// The bytes before the data of a str or bin, by its first byte, with [`IS_STR`] for a str; 0 for
/// other values.
const STRING_HEADS: [u8; 256] = {
    let mut heads = [0; 256];
    let mut byte = 0xa0;
    while byte <= 0xbf {
        heads[byte] = 1 | IS_STR;
        byte += 1;
    }
    (heads[0xd9], heads[0xda], heads[0xdb]) = (2 | IS_STR, 3 | IS_STR, 5 | IS_STR);
    (heads[0xc4], heads[0xc5], heads[0xc6]) = (2, 3, 5);
    heads
};
const IS_STR: u8 = 1 << 7;

/// The data of a str or bin, and whether it is a str. `None` for another value. `value` is all of
/// the value.
#[inline(always)]
pub(crate) fn string(first: u8, value: Range<usize>) -> Option<(Range<usize>, bool)> {
    let head = STRING_HEADS[usize::from(first)];
    let data = value.start + usize::from(head & !IS_STR)..value.end;
    (head != 0).then_some((data, head & IS_STR != 0))
}

/// The bytes before the data of a str or bin with this first byte, and whether it is a str. `None`
/// for another value.
pub(crate) fn string_head(first: u8) -> Option<(usize, bool)> {
    let (data, is_str) = string(first, 0..0)?;
    Some((data.start, is_str))
}

/// The type of an ext, and its data. `None` for another value. `value` is all of the value.
pub(crate) fn ext(value: &[u8]) -> Option<(i8, &[u8])> {
    let head = ext_head(value[0])?;
    Some((value[head - 1] as i8, &value[head..]))
}

/// Bytes before the data of an ext; `None` for the first byte of another value.
pub(crate) fn ext_head(first: u8) -> Option<usize> {
    match first {
        0xd4..=0xd8 => Some(2),
        0xc7 => Some(3),
        0xc8 => Some(4),
        0xc9 => Some(6),
        _ => None,
    }
}

/// The array at the start of `value`; `None` for another value.
pub(crate) fn array_head(value: &[u8]) -> Option<Container> {
    match head(value) {
        Head::Container(container) if !container.is_map => Some(container),
        _ => None,
    }
}

/// A number, as it is encoded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Number {
    Unsigned(u64),
    Signed(i64),
    Float32(f32),
    Float64(f64),
}

/// The number that `value` starts with, and how many bytes it has. `None` if it is not a number.
/// The whole number must be there.
#[inline(always)]
pub(crate) fn read_number(value: &[u8]) -> Option<(Number, usize)> {
    #[inline(always)]
    fn data<const N: usize>(value: &[u8]) -> Option<[u8; N]> {
        value.get(1..)?.first_chunk().copied()
    }
    Some(match *value.first()? {
        first @ 0x00..=0x7f => (Number::Unsigned(first.into()), 1),
        first @ 0xe0..=0xff => (Number::Signed((first as i8).into()), 1),
        0xcc => (Number::Unsigned(u8::from_be_bytes(data(value)?).into()), 2),
        0xcd => (Number::Unsigned(u16::from_be_bytes(data(value)?).into()), 3),
        0xce => (Number::Unsigned(u32::from_be_bytes(data(value)?).into()), 5),
        0xcf => (Number::Unsigned(big_endian(data(value)?)), 9),
        0xd0 => (Number::Signed(i8::from_be_bytes(data(value)?).into()), 2),
        0xd1 => (Number::Signed(i16::from_be_bytes(data(value)?).into()), 3),
        0xd2 => (Number::Signed(i32::from_be_bytes(data(value)?).into()), 5),
        0xd3 => (Number::Signed(big_endian(data(value)?) as i64), 9),
        0xca => (Number::Float32(f32::from_be_bytes(data(value)?)), 5),
        0xcb => (Number::Float64(f64::from_bits(big_endian(data(value)?))), 9),
        _ => return None,
    })
}

/// The number of these bytes.
#[inline(always)]
pub(crate) fn big_endian(bytes: [u8; 8]) -> u64 {
    // WebAssembly has no instruction that swaps the bytes of a number. This is a quarter of the
    // code that `from_be_bytes` becomes.
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    {
        use std::arch::wasm32::{i8x16_shuffle, u64x2_extract_lane, u64x2_splat};
        let word = u64x2_splat(u64::from_le_bytes(bytes));
        let swapped = i8x16_shuffle::<7, 6, 5, 4, 3, 2, 1, 0, 7, 6, 5, 4, 3, 2, 1, 0>(word, word);
        u64x2_extract_lane::<0>(swapped)
    }
    #[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
    u64::from_be_bytes(bytes)
}

/// The layout of an integer's data, by its first byte: the number of unused bits out of 64,
/// [`DATA_FOLLOWS`] and [`IS_SIGNED`]. [`NO_INTEGER`] for other values.
const INTEGERS: [u8; 256] = {
    let mut integers = [NO_INTEGER; 256];
    let mut byte = 0;
    while byte < 256 {
        integers[byte] = match byte as u8 {
            // The data is the first byte.
            0x00..=0x7f => 56,
            0xe0..=0xff => 56 | IS_SIGNED,
            0xcc..=0xcf => (64 - (8 << (byte - 0xcc))) | DATA_FOLLOWS,
            0xd0..=0xd3 => (64 - (8 << (byte - 0xd0))) | DATA_FOLLOWS | IS_SIGNED,
            _ => NO_INTEGER,
        };
        byte += 1;
    }
    integers
};
/// The data comes after the first byte.
const DATA_FOLLOWS: u8 = 1 << 6;
const IS_SIGNED: u8 = 1 << 7;
const NO_INTEGER: u8 = u8::MAX;

/// The integer at `at`, in 64 bits, if it is one from `low` to `high`. `None` can be wrong directly
/// before the end of the chunk.
#[inline(always)]
pub(crate) fn read_integer(chunk: &[u8], at: usize, low: i64, high: u64) -> Option<u64> {
    let bytes: &[u8; 9] = chunk.get(at..)?.first_chunk()?;
    let integer = INTEGERS[usize::from(bytes[0])];
    if integer == NO_INTEGER {
        return None;
    }
    // The sizes and signs of integers vary, so no branch depends on them.
    let data = &bytes[usize::from(integer >> 6 & 1)..];
    let word = data.first_chunk().expect("eight bytes of nine");
    let unused = integer & 0x3f;
    let sign = u64::from(integer >> 7) << (63 - unused);
    let bits = ((big_endian(*word) >> unused) ^ sign).wrapping_sub(sign);
    let is_negative = (sign != 0) & (bits >> 63 != 0);
    let fits = (is_negative & (bits as i64 >= low)) | (!is_negative & (bits <= high));
    fits.then_some(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each first byte has the head that the specification gives it.
    #[test]
    fn heads() {
        let array = |head, values| Head::Container(Container { head, values, is_map: false });
        let map = |head, values| Head::Container(Container { head, values, is_map: true });
        for first in 0..=u8::MAX {
            let bytes = [first, 0, 0, 1, 2, 3];
            let wanted = match first {
                0x00..=0x7f | 0xe0..=0xff | 0xc0 | 0xc2..=0xc3 => Head::Leaf(1),
                0x80..=0x8f => map(1, u64::from(first - 0x80) * 2),
                0x90..=0x9f => array(1, (first - 0x90).into()),
                0xa0..=0xbf => Head::Leaf(u64::from(first - 0xa0) + 1),
                0xc1 => Head::NeverUsed,
                0xc4 | 0xd9 => Head::Leaf(2),
                0xc5 | 0xda => Head::Leaf(3),
                0xc6 | 0xdb => Head::Leaf(5 + 0x0102),
                0xc7 => Head::Leaf(3),
                0xc8 => Head::Leaf(4),
                0xc9 => Head::Leaf(6 + 0x0102),
                0xca => Head::Leaf(5),
                0xcb => Head::Leaf(9),
                0xcc..=0xcf => Head::Leaf(1 + (1 << (first - 0xcc))),
                0xd0..=0xd3 => Head::Leaf(1 + (1 << (first - 0xd0))),
                0xd4..=0xd8 => Head::Leaf(2 + (1 << (first - 0xd4))),
                0xdc => array(3, 0),
                0xdd => array(5, 0x0102),
                0xde => map(3, 0),
                0xdf => map(5, 0x0204),
            };
            assert_eq!(head(&bytes), wanted, "{first:#x}");
            assert_eq!(is_container(first), matches!(wanted, Head::Container(_)), "{first:#x}");
            // A head is cut until all of its bytes are there.
            let size = (1..bytes.len()).find(|size| !matches!(head(&bytes[..*size]), Head::Cut(_)));
            let size = size.expect("a head has at most six bytes, but ext's type is not needed");
            assert_eq!(head(&bytes[..size]), wanted, "{first:#x}");
            for cut in 1..size {
                assert!(
                    matches!(head(&bytes[..cut]), Head::Cut(head) if head >= size),
                    "{first:#x}"
                );
            }
        }
    }
}
