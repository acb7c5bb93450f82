//! The encodings of a length.

/// The result of reading a length.
pub(crate) enum Length {
    /// A length that takes `size` bytes.
    Whole { size: usize, value: u64 },
    /// The bytes end inside the length. It has at least `need` bytes.
    Cut { need: usize },
    /// A varint of more than 64 bits.
    TooLong,
}

/// An encoding of a length.
pub(crate) trait Prefix {
    /// Reads the length at the start of `bytes`.
    fn read(bytes: &[u8]) -> Length;
}

/// An integer of N bytes, little-endian.
pub(crate) struct LittleEndian<const N: usize>;
/// An integer of N bytes, big-endian.
pub(crate) struct BigEndian<const N: usize>;
/// Protobuf's varint: seven bits a byte, the lowest first; the top bit says that more bytes follow.
/// It has at most ten bytes, and may have more than its value needs.
pub(crate) struct Varint;

impl<const N: usize> Prefix for LittleEndian<N> {
    #[inline(always)]
    fn read(bytes: &[u8]) -> Length {
        fixed_size::<N>(bytes, |bytes| bytes.iter().rev().fold(0, append_byte))
    }
}

impl<const N: usize> Prefix for BigEndian<N> {
    #[inline(always)]
    fn read(bytes: &[u8]) -> Length {
        fixed_size::<N>(bytes, |bytes| bytes.iter().fold(0, append_byte))
    }
}

#[inline(always)]
fn append_byte(high: u64, byte: &u8) -> u64 {
    high << 8 | u64::from(*byte)
}

#[inline(always)]
fn fixed_size<const N: usize>(bytes: &[u8], value: impl FnOnce(&[u8; N]) -> u64) -> Length {
    match bytes.first_chunk() {
        Some(bytes) => Length::Whole { size: N, value: value(bytes) },
        None => Length::Cut { need: N },
    }
}

/// Largest size of a varint in bytes.
pub(crate) const MAX_VARINT: usize = 10;

impl Prefix for Varint {
    #[inline(always)]
    fn read(bytes: &[u8]) -> Length {
        // Most lengths have one or two bytes.
        match bytes {
            [low @ ..0x80, ..] => Length::Whole { size: 1, value: u64::from(*low) },
            [low, high @ ..0x80, ..] => {
                let value = u64::from(low & 0x7f) | u64::from(*high) << 7;
                Length::Whole { size: 2, value }
            }
            _ => read_long(bytes),
        }
    }
}

fn read_long(bytes: &[u8]) -> Length {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(MAX_VARINT).enumerate() {
        // Nine bytes have 63 bits, so the tenth can hold only one.
        if index == MAX_VARINT - 1 && *byte > 1 {
            return Length::TooLong;
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
        if *byte < 0x80 {
            return Length::Whole { size: index + 1, value };
        }
    }
    Length::Cut { need: bytes.len() + 1 }
}
