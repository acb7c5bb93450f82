//! Converts a value as a page stores it into the value of a field.

use pipemill_parsing::decimal::decimal;

use crate::rows::Sink;

/// Days from the start of Julian days to 1970-01-01.
const EPOCH_DAY: i64 = 2_440_588;
const NANOS_OF_DAY: i64 = 86_400_000_000_000;

/// How values are converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Convert {
    /// They are the same bytes.
    Same,
    /// The same bytes, which must be UTF-8.
    Text,
    /// 32 bits become this number of bytes.
    Narrow { bytes: usize, is_signed: bool },
    /// 32 bits become 64.
    Widen,
    /// A day and the nanoseconds in it become nanoseconds.
    Int96,
    /// An unscaled integer, little-endian if it has one of these sizes of a number, becomes text.
    Decimal { scale: u32, is_little_endian: bool },
}

impl Convert {
    /// Whether values become the same bytes.
    pub(crate) fn is_same_bytes(self) -> bool {
        matches!(self, Self::Same | Self::Text)
    }

    /// The size of the values of a field, if they have one size. `stored` is the size of those in
    /// the pages.
    pub(crate) fn size(self, stored: Option<usize>) -> Option<usize> {
        match self {
            Self::Same => stored,
            Self::Narrow { bytes, .. } => Some(bytes),
            Self::Widen | Self::Int96 => Some(8),
            Self::Text | Self::Decimal { .. } => None,
        }
    }

    /// Appends the values of a field: all of these, which are stored with `size` bytes each. After
    /// an error, those before it are appended.
    pub(crate) fn push_all(
        self,
        stored: &[u8],
        size: usize,
        sink: &mut Sink<'_>,
    ) -> Result<(), String> {
        match self {
            Self::Same if sink.ends.is_none() => sink.bytes.extend_from_slice(stored),
            Self::Widen if size == 4 => {
                let from = sink.bytes.len();
                sink.bytes.resize(from + 2 * stored.len(), 0);
                let places = sink.bytes[from..].as_chunks_mut::<8>().0.iter_mut();
                for (place, number) in places.zip(stored.as_chunks::<4>().0) {
                    *place = i64::from(i32::from_le_bytes(*number)).to_le_bytes();
                }
            }
            _ => return stored.chunks_exact(size).try_for_each(|value| self.push(value, sink)),
        }
        Ok(())
    }

    /// Appends the value of the field. The error says what the value is.
    #[inline]
    pub(crate) fn push(self, stored: &[u8], sink: &mut Sink<'_>) -> Result<(), String> {
        let out = &mut *sink.bytes;
        match self {
            Self::Same => out.extend_from_slice(stored),
            Self::Text => match std::str::from_utf8(stored) {
                Ok(_) => out.extend_from_slice(stored),
                Err(error) => return Err(no_text(&error)),
            },
            Self::Narrow { bytes, is_signed } => {
                let value = i32::from_le_bytes(exactly(stored)?);
                let bits = 8 * bytes as u32;
                let fits = match is_signed {
                    true => value == (value << (32 - bits)) >> (32 - bits),
                    false => (value as u32) >> bits == 0,
                };
                if !fits {
                    let kind = if is_signed { "int" } else { "uint" };
                    return Err(format!("{value}, which is no {kind}{bits}"));
                }
                out.extend_from_slice(&stored[..bytes]);
            }
            Self::Widen => {
                let value = i64::from(i32::from_le_bytes(exactly(stored)?));
                out.extend_from_slice(&value.to_le_bytes());
            }
            Self::Int96 => out.extend_from_slice(&nanoseconds(stored)?.to_le_bytes()),
            Self::Decimal { scale, is_little_endian } => {
                let mut digits = stored.to_vec();
                if is_little_endian {
                    digits.reverse();
                }
                out.extend_from_slice(decimal(digits, scale).as_bytes());
            }
        }
        sink.end_value();
        Ok(())
    }
}

/// What bytes are that are no text.
pub(crate) fn no_text(error: &std::str::Utf8Error) -> String {
    format!("text that is not UTF-8 at +{}", error.valid_up_to())
}

fn exactly<const N: usize>(stored: &[u8]) -> Result<[u8; N], String> {
    stored.try_into().map_err(|_| format!("a value of {} bytes, not of {N}", stored.len()))
}

/// The nanoseconds since 1970 of a time of 96 bits.
fn nanoseconds(stored: &[u8]) -> Result<i64, String> {
    let stored: [u8; 12] = exactly(stored)?;
    let nanos = i64::from_le_bytes(exactly(&stored[..8])?);
    let day = i64::from(u32::from_le_bytes(exactly(&stored[8..])?)) - EPOCH_DAY;
    let of_day = i128::from(day) * i128::from(NANOS_OF_DAY);
    i64::try_from(of_day + i128::from(nanos))
        .map_err(|_| format!("the day {day} since 1970, which nanoseconds of 64 bits don't reach"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_96_bits_are_nanoseconds() {
        let at = |day: u32, nanos: i64| {
            nanoseconds(&[&nanos.to_le_bytes()[..], &day.to_le_bytes()].concat())
        };
        assert_eq!(at(2_440_588, 1), Ok(1));
        assert_eq!(at(2_440_587, 0), Ok(-NANOS_OF_DAY));
        at(u32::MAX, 0).unwrap_err();
    }

    #[test]
    fn numbers_that_do_not_fit_are_errors() {
        let narrow = |value: i32, bytes, is_signed| {
            let mut out = Vec::new();
            let mut sink = Sink { bytes: &mut out, ends: None, start: 0 };
            Convert::Narrow { bytes, is_signed }.push(&value.to_le_bytes(), &mut sink)?;
            Ok::<_, String>(out)
        };
        assert_eq!(narrow(-1, 1, true), Ok(vec![0xff]));
        assert_eq!(narrow(255, 1, false), Ok(vec![0xff]));
        narrow(128, 1, true).unwrap_err();
        narrow(-1, 2, false).unwrap_err();
    }
}
