//! Converts a value as a buffer stores it into the value of a field.

use pipemill_parsing::decimal::decimal;

const MILLIS_OF_DAY: i64 = 86_400_000;

/// How values are converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Convert {
    /// They are the same bytes.
    Same,
    /// The same bytes, which must be UTF-8.
    Text,
    /// 32 bits become 64.
    Widen,
    /// Milliseconds become days.
    Days,
    /// An unscaled integer becomes text.
    Decimal { scale: i32 },
}

impl Convert {
    /// Appends the value of the field. The error says what the value is.
    #[inline]
    pub(crate) fn push(self, stored: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        match self {
            Self::Same => out.extend_from_slice(stored),
            Self::Text => match std::str::from_utf8(stored) {
                Ok(_) => out.extend_from_slice(stored),
                Err(error) => {
                    let at = error.valid_up_to();
                    return Err(format!("text that is not UTF-8 at +{at}"));
                }
            },
            Self::Widen => {
                let value = stored.first_chunk().copied().map_or(0, i32::from_le_bytes);
                out.extend_from_slice(&i64::from(value).to_le_bytes());
            }
            Self::Days => {
                let millis = stored.first_chunk().copied().map_or(0, i64::from_le_bytes);
                let days = i32::try_from(millis / MILLIS_OF_DAY).ok();
                let days = days.filter(|_| millis % MILLIS_OF_DAY == 0).ok_or_else(|| {
                    format!(
                        "a date of {millis} milliseconds since 1970, which are no days of 32 bits"
                    )
                })?;
                out.extend_from_slice(&days.to_le_bytes());
            }
            Self::Decimal { scale } => {
                let digits: Vec<u8> = stored.iter().rev().copied().collect();
                let mut text = decimal(digits, u32::try_from(scale).unwrap_or(0));
                // A negative scale: zeros before the point.
                if scale < 0 && text != "0" {
                    text.push_str(&"0".repeat(scale.unsigned_abs() as usize));
                }
                out.extend_from_slice(text.as_bytes());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(convert: Convert, stored: &[u8]) -> Result<Vec<u8>, String> {
        let mut out = Vec::new();
        convert.push(stored, &mut out).map(|()| out)
    }

    #[test]
    fn milliseconds_are_whole_days() {
        let days = |millis: i64| of(Convert::Days, &millis.to_le_bytes());
        assert_eq!(days(-MILLIS_OF_DAY), Ok((-1i32).to_le_bytes().to_vec()));
        days(MILLIS_OF_DAY + 1).unwrap_err();
        days(i64::MAX - i64::MAX % MILLIS_OF_DAY).unwrap_err();
    }

    #[test]
    fn decimals_have_a_scale_of_any_sign() {
        let text = |number: i64, scale| {
            of(Convert::Decimal { scale }, &number.to_le_bytes()).map(String::from_utf8)
        };
        assert_eq!(text(-5, 2), Ok(Ok("-0.05".to_owned())));
        assert_eq!(text(-5, -2), Ok(Ok("-500".to_owned())));
        assert_eq!(text(0, -2), Ok(Ok("0".to_owned())));
    }
}
