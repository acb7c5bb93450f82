//! Converts the numbers of MessagePack to the types of fields. Integers must fit. Floats are rounded
//! to the nearest value of the type, and integers may become floats.

use pipemill_plugin::Scalar;

use crate::format::Number;

/// The reason why a number is not a value of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Misfit {
    /// It is a float, and the type is an integer; or it is not a number.
    Type,
    /// It is too large or too small.
    OutOfRange,
}

/// A type of numbers that a field can have. It is a value, not a type of Rust, because the code for
/// arrays would be compiled once for each.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NumberType {
    /// Integers of `width` bytes from `low` to `high`.
    Integer {
        width: usize,
        low: i64,
        high: u64,
    },
    /// IEEE 754 with 5 bits of exponent and 10 of fraction.
    Float16,
    /// The upper half of an `f32`: 8 bits of exponent and 7 of fraction.
    Bfloat16,
    Float32,
    Float64,
}

impl NumberType {
    /// The type of this scalar. `None` if it is not a number.
    pub(crate) fn new(scalar: Scalar) -> Option<Self> {
        let signed = |width| {
            let high = u64::MAX >> (65 - 8 * width);
            Self::Integer { width, low: !(high as i64), high }
        };
        let unsigned = |width| Self::Integer { width, low: 0, high: u64::MAX >> (64 - 8 * width) };
        Some(match scalar {
            Scalar::Int8 => signed(1),
            Scalar::Int16 => signed(2),
            Scalar::Int32 => signed(4),
            Scalar::Int64 => signed(8),
            Scalar::Uint8 => unsigned(1),
            Scalar::Uint16 => unsigned(2),
            Scalar::Uint32 => unsigned(4),
            Scalar::Uint64 => unsigned(8),
            Scalar::Float16 => Self::Float16,
            Scalar::Bfloat16 => Self::Bfloat16,
            Scalar::Float32 => Self::Float32,
            Scalar::Float64 => Self::Float64,
            Scalar::Bytes | Scalar::Utf8 | Scalar::Boolean => return None,
        })
    }

    /// Size of a value in bytes.
    pub(crate) fn width(self) -> usize {
        match self {
            Self::Integer { width, .. } => width,
            Self::Float16 | Self::Bfloat16 => 2,
            Self::Float32 => 4,
            Self::Float64 => 8,
        }
    }

    /// The bits of the number as a value of this type.
    pub(crate) fn convert(self, number: Number) -> Result<u64, Misfit> {
        match self {
            Self::Integer { low, high, .. } => {
                let (bits, fits) = match number {
                    Number::Signed(value @ ..0) => (value as u64, value >= low),
                    Number::Signed(value) => (value as u64, value as u64 <= high),
                    Number::Unsigned(value) => (value, value <= high),
                    Number::Float32(_) | Number::Float64(_) => return Err(Misfit::Type),
                };
                fits.then_some(bits).ok_or(Misfit::OutOfRange)
            }
            Self::Float16 => half::<5>(number),
            Self::Bfloat16 => half::<8>(number),
            Self::Float32 => match number {
                Number::Unsigned(value) => Ok((value as f32).to_bits().into()),
                Number::Signed(value) => Ok((value as f32).to_bits().into()),
                Number::Float32(value) => Ok(value.to_bits().into()),
                // All NaNs become the same one, because machines convert their other bits
                // differently.
                Number::Float64(value) if value.is_nan() => Ok(f32::NAN.to_bits().into()),
                Number::Float64(value) => {
                    let narrow = value as f32;
                    let fits = narrow.is_finite() || value.is_infinite();
                    fits.then(|| narrow.to_bits().into()).ok_or(Misfit::OutOfRange)
                }
            },
            Self::Float64 => Ok(match number {
                Number::Unsigned(value) => (value as f64).to_bits(),
                Number::Signed(value) => (value as f64).to_bits(),
                Number::Float32(value) if value.is_nan() => f64::NAN.to_bits(),
                Number::Float32(value) => f64::from(value).to_bits(),
                Number::Float64(value) => value.to_bits(),
            }),
        }
    }
}

/// The nearest float of 2 bytes whose exponent has this many bits.
fn half<const EXPONENT_BITS: u32>(number: Number) -> Result<u64, Misfit> {
    let fraction_bits = 15 - EXPONENT_BITS;
    // The bits of infinity, and the lowest ones that are no number.
    let infinity = ((1 << EXPONENT_BITS) - 1) << fraction_bits;
    let value = match number {
        Number::Unsigned(value) => {
            return signed(false, nearest(value, 0, EXPONENT_BITS, fraction_bits), infinity);
        }
        Number::Signed(value) => {
            let magnitude = nearest(value.unsigned_abs(), 0, EXPONENT_BITS, fraction_bits);
            return signed(value < 0, magnitude, infinity);
        }
        Number::Float32(value) => f64::from(value),
        Number::Float64(value) => value,
    };
    if value.is_nan() {
        return Ok(infinity | 1 << (fraction_bits - 1));
    }
    let negative = value.is_sign_negative();
    if value.is_infinite() {
        return Ok(infinity | u64::from(negative) << 15);
    }
    let bits = value.to_bits();
    let (exponent, fraction) = ((bits >> 52 & 0x7ff) as i32, bits & ((1 << 52) - 1));
    let (significand, exponent) = match exponent {
        0 => (fraction, -1074),
        exponent => (fraction | 1 << 52, exponent - 1075),
    };
    signed(negative, nearest(significand, exponent, EXPONENT_BITS, fraction_bits), infinity)
}

/// The bits of a float of 2 bytes with this sign. Its other bits must be less than those of infinity.
fn signed(negative: bool, magnitude: u64, infinity: u64) -> Result<u64, Misfit> {
    if magnitude >= infinity {
        return Err(Misfit::OutOfRange);
    }
    Ok(magnitude | u64::from(negative) << 15)
}

/// The bits, without the sign, of the float that is nearest to `significand` x 2^`exponent`; of two
/// equally near floats, the even one. They are those of infinity or greater if it is too large.
fn nearest(significand: u64, exponent: i32, exponent_bits: u32, fraction_bits: u32) -> u64 {
    if significand == 0 {
        return 0;
    }
    let bias = (1 << (exponent_bits - 1)) - 1;
    // The value is `significand` / 2^63 x 2^`exponent`, with the highest bit of `significand` set.
    let zeros = significand.leading_zeros();
    let (significand, exponent) = (significand << zeros, exponent + 63 - zeros as i32);
    // Subnormals have the exponent of the smallest normal numbers, and fewer bits.
    let lowest = 1 - bias;
    let shift = 63 - fraction_bits as i32 + (lowest - exponent).max(0);
    if shift > 64 {
        return 0;
    }
    let exact = u128::from(significand) << 64 >> shift;
    let (whole, rest) = ((exact >> 64) as u64, exact as u64);
    let half = 1 << 63;
    let round_up = rest > half || rest == half && whole & 1 == 1;
    // The highest bit of `whole` adds 1 to the exponent of a normal number, as a carry does.
    let above_lowest = (exponent - lowest).max(0) as u64;
    (above_lowest << fraction_bits) + whole + u64::from(round_up)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::format;

    /// The value of the bits of a float of 2 bytes, without its sign.
    fn value(bits: u16, exponent_bits: u32) -> f64 {
        let fraction_bits = 15 - exponent_bits as i32;
        let bias = (1 << (exponent_bits - 1)) - 1;
        let (exponent, fraction) =
            (i32::from(bits) >> fraction_bits, bits & ((1 << fraction_bits) - 1));
        let one = 2f64.powi(fraction_bits);
        if exponent == 0 {
            return f64::from(fraction) / one * 2f64.powi(1 - bias);
        }
        (1.0 + f64::from(fraction) / one) * 2f64.powi(exponent - bias)
    }

    /// Every float of 2 bytes is found, and so is the nearest one to values around the middle
    /// between two floats.
    fn check(number_type: NumberType, exponent_bits: u32) {
        let found = |value: f64| {
            let bits = number_type.convert(Number::Float64(value))?;
            Ok(u16::try_from(bits).expect("two bytes"))
        };
        let infinity = ((1u16 << exponent_bits) - 1) << (15 - exponent_bits);
        for bits in 0..infinity {
            let (this, next) = (value(bits, exponent_bits), value(bits + 1, exponent_bits));
            assert_eq!(found(this), Ok(bits));
            assert_eq!(found(-this), Ok(bits | 0x8000));
            let middle = (this + next) / 2.0;
            let even = bits + bits % 2;
            let fits = |bits| if bits < infinity { Ok(bits) } else { Err(Misfit::OutOfRange) };
            assert_eq!(found(middle), fits(even), "{middle}");
            assert_eq!(found(middle.next_down()), Ok(bits), "{middle}");
            assert_eq!(found(middle.next_up()), fits(bits + 1), "{middle}");
        }
        assert_eq!(found(f64::INFINITY), Ok(infinity));
        assert_eq!(found(f64::NEG_INFINITY), Ok(infinity | 0x8000));
        assert_eq!(found(f64::MAX), Err(Misfit::OutOfRange));
        assert_eq!(found(f64::from_bits(1)), Ok(0));
        assert!(found(f64::NAN).is_ok_and(|bits| bits & 0x7fff > infinity));
    }

    #[test]
    fn floats_of_two_bytes() {
        check(NumberType::Float16, 5);
        check(NumberType::Bfloat16, 8);
    }

    #[test]
    fn limits_of_floats() {
        let f32_of = |value: f64| {
            let bits = NumberType::Float32.convert(Number::Float64(value))?;
            Ok(f32::from_bits(u32::try_from(bits).expect("four bytes")))
        };
        let limit = f64::from(f32::MAX) + 2f64.powi(102);
        assert_eq!(f32_of(limit.next_up().next_down()), f32_of(limit));
        assert_eq!(f32_of(2f64.powi(128)), Err(Misfit::OutOfRange));
        assert_eq!(f32_of(f64::from(f32::MAX)), Ok(f32::MAX));
        assert_eq!(f32_of(f64::INFINITY), Ok(f32::INFINITY));
        assert_eq!(
            NumberType::Float32.convert(Number::Float64(f64::NAN)),
            Ok(f32::NAN.to_bits().into())
        );
        assert_eq!(NumberType::Float64.convert(Number::Float32(f32::NAN)), Ok(f64::NAN.to_bits()));
    }

    proptest! {
        /// The fast way for integers gives the same result as the general way, or none.
        #[test]
        fn integers(first: u8, data: [u8; 8], width in 0u32..4, is_signed: bool) {
            let high = u64::MAX >> (64 - (8 << width) + u32::from(is_signed));
            let low = if is_signed { !(high as i64) } else { 0 };
            let to = NumberType::Integer { width: 1 << width, low, high };
            let value = [&[first][..], &data].concat();
            let wanted = format::read_number(&value).and_then(|(number, _)| to.convert(number).ok());
            prop_assert_eq!(format::read_integer(&value, 0, low, high), wanted);
        }

        /// Integers are rounded once: to the float that is nearest to the integer.
        #[test]
        fn integers_as_bfloat16(value: u64, shift in 0u32..64) {
            let value = value >> shift;
            let bits = NumberType::Bfloat16.convert(Number::Unsigned(value));
            let bits = u16::try_from(bits.expect("no integer is out of its range")).expect("two bytes");
            // All are exact: u64 below 2^64, bfloat16 of integers below 2^65.
            let distance = |bits: u16| {
                let near = f64::from(f32::from_bits(u32::from(bits) << 16));
                (near as u128).abs_diff(u128::from(value))
            };
            let near = f64::from(f32::from_bits(u32::from(bits) << 16));
            prop_assert!(near.fract() == 0.0 || value == 0);
            prop_assert!(distance(bits) <= distance(bits + 1));
            prop_assert!(bits == 0 || distance(bits) <= distance(bits - 1) || value < 256);
        }
    }
}
