//! The kinds of lengths: how many bytes one has, and which number they are.

/// What stands where a length should.
pub(crate) enum Length {
    /// A length of `size` bytes.
    Whole { size: usize, value: u64 },
    /// A part of one; it has `need` bytes at least.
    Cut { need: usize },
    /// A varint that no 64-bit number has.
    TooLong,
}

/// A kind of length.
pub(crate) trait Prefix {
    /// The length that these bytes start with.
    fn read(bytes: &[u8]) -> Length;
}

/// A number of N bytes, the lowest first.
pub(crate) struct Le<const N: usize>;
/// A number of N bytes, the highest first.
pub(crate) struct Be<const N: usize>;
/// Seven bits a byte, the lowest first; the top bit says that more follow. At most ten bytes, as
/// protobuf has it; zeros at the top may be written out.
pub(crate) struct Varint;

impl<const N: usize> Prefix for Le<N> {
    #[inline(always)]
    fn read(bytes: &[u8]) -> Length {
        whole::<N>(bytes, |bytes| bytes.iter().rev().fold(0, byte))
    }
}

impl<const N: usize> Prefix for Be<N> {
    #[inline(always)]
    fn read(bytes: &[u8]) -> Length {
        whole::<N>(bytes, |bytes| bytes.iter().fold(0, byte))
    }
}

#[inline(always)]
fn byte(above: u64, byte: &u8) -> u64 {
    above << 8 | u64::from(*byte)
}

#[inline(always)]
fn whole<const N: usize>(bytes: &[u8], value: impl FnOnce(&[u8; N]) -> u64) -> Length {
    match bytes.first_chunk() {
        Some(bytes) => Length::Whole { size: N, value: value(bytes) },
        None => Length::Cut { need: N },
    }
}

/// Bytes of the longest varint.
pub(crate) const LONGEST: usize = 10;

impl Prefix for Varint {
    #[inline(always)]
    fn read(bytes: &[u8]) -> Length {
        // Most records are shorter than 128 bytes, or than 16 KiB.
        match bytes {
            [low @ ..0x80, ..] => Length::Whole { size: 1, value: u64::from(*low) },
            [low, high @ ..0x80, ..] => {
                let value = u64::from(low & 0x7f) | u64::from(*high) << 7;
                Length::Whole { size: 2, value }
            }
            _ => longer(bytes),
        }
    }
}

fn longer(bytes: &[u8]) -> Length {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(LONGEST).enumerate() {
        // The tenth byte has room for one bit.
        if index == LONGEST - 1 && *byte > 1 {
            return Length::TooLong;
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
        if *byte < 0x80 {
            return Length::Whole { size: index + 1, value };
        }
    }
    Length::Cut { need: bytes.len() + 1 }
}
