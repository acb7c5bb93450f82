//! Timestamps: the ext of type -1, with 4, 8 or 12 bytes.

use crate::format;
use crate::numbers::Misfit;

/// The type of the ext that is a timestamp.
const TIMESTAMP: i8 = -1;
const NANOSECONDS: u32 = 1_000_000_000;

/// The nanoseconds since 1970 of a timestamp. `value` is the whole value.
pub(crate) fn timestamp(value: &[u8]) -> Result<i64, Misfit> {
    let Some((TIMESTAMP, data)) = format::ext(value) else { return Err(Misfit::Type) };
    let (seconds, nanoseconds) = match data.len() {
        4 => (i64::from(u32::from_be_bytes(array(data))), 0),
        8 => {
            let both = u64::from_be_bytes(array(data));
            ((both & ((1 << 34) - 1)) as i64, (both >> 34) as u32)
        }
        12 => (i64::from_be_bytes(array(&data[4..])), u32::from_be_bytes(array(&data[..4]))),
        _ => return Err(Misfit::Type),
    };
    if nanoseconds >= NANOSECONDS {
        return Err(Misfit::OutOfRange);
    }
    let time = i128::from(seconds) * i128::from(NANOSECONDS) + i128::from(nanoseconds);
    i64::try_from(time).map_err(|_| Misfit::OutOfRange)
}

/// The bytes as an array of their length.
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("the caller has checked the length")
}
