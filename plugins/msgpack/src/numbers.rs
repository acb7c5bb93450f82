//! Converts the numbers of MessagePack to the types of fields. Integers must fit. Floats are rounded
//! to the nearest value of the type, and integers may become floats.

use crate::format::Number;

/// Why a number is no value of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Misfit {
    /// It is a float, and the type is an integer; or it is no number.
    Type,
    /// It is too large or too small.
    OutOfRange,
}

/// A type of numbers that a field can have.
pub(crate) trait Target: Sized {
    /// Its value in little-endian bytes.
    type Bytes: AsRef<[u8]> + Copy;
    /// The bytes of the value of this type that the number is.
    fn convert(number: Number) -> Result<Self::Bytes, Misfit>;
    /// Whether it is an integer.
    const IS_INTEGER: bool;
}

macro_rules! integers {
    ($($type:ty)*) => {
        $(impl Target for $type {
            type Bytes = [u8; size_of::<$type>()];
            const IS_INTEGER: bool = true;
            #[inline(always)]
            fn convert(number: Number) -> Result<Self::Bytes, Misfit> {
                let value = match number {
                    Number::Unsigned(value) => <$type>::try_from(value).ok(),
                    Number::Signed(value) => <$type>::try_from(value).ok(),
                    Number::Float32(_) | Number::Float64(_) => return Err(Misfit::Type),
                };
                value.map(<$type>::to_le_bytes).ok_or(Misfit::OutOfRange)
            }
        })*
    };
}

integers! { i8 i16 i32 i64 u8 u16 u32 u64 }

impl Target for f64 {
    type Bytes = [u8; 8];
    const IS_INTEGER: bool = false;
    #[inline(always)]
    fn convert(number: Number) -> Result<[u8; 8], Misfit> {
        let value = match number {
            Number::Unsigned(value) => value as f64,
            Number::Signed(value) => value as f64,
            Number::Float32(value) if value.is_nan() => f64::NAN,
            Number::Float32(value) => value.into(),
            Number::Float64(value) => value,
        };
        Ok(value.to_le_bytes())
    }
}

impl Target for f32 {
    type Bytes = [u8; 4];
    const IS_INTEGER: bool = false;
    #[inline(always)]
    fn convert(number: Number) -> Result<[u8; 4], Misfit> {
        let value = match number {
            Number::Unsigned(value) => value as f32,
            Number::Signed(value) => value as f32,
            Number::Float32(value) => value,
            Number::Float64(value) if (value as f32).is_finite() => value as f32,
            Number::Float64(value) if value.is_finite() => return Err(Misfit::OutOfRange),
            // All NaNs become one, because machines convert their other bits differently.
            Number::Float64(value) if value.is_nan() => f32::NAN,
            Number::Float64(value) => value as f32,
        };
        Ok(value.to_le_bytes())
    }
}

/// IEEE 754 with 5 bits of exponent and 10 of fraction.
pub(crate) struct Float16;
/// The upper half of an `f32`: 8 bits of exponent and 7 of fraction.
pub(crate) struct Bfloat16;

impl Target for Float16 {
    type Bytes = [u8; 2];
    const IS_INTEGER: bool = false;
    fn convert(number: Number) -> Result<[u8; 2], Misfit> {
        half::<5>(number)
    }
}

impl Target for Bfloat16 {
    type Bytes = [u8; 2];
    const IS_INTEGER: bool = false;
    fn convert(number: Number) -> Result<[u8; 2], Misfit> {
        half::<8>(number)
    }
}

/// The nearest float of 2 bytes whose exponent has this many bits.
fn half<const EXPONENT_BITS: u32>(number: Number) -> Result<[u8; 2], Misfit> {
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
        return Ok(((infinity | 1 << (fraction_bits - 1)) as u16).to_le_bytes());
    }
    let negative = value.is_sign_negative();
    if value.is_infinite() {
        return Ok((infinity as u16 | u16::from(negative) << 15).to_le_bytes());
    }
    let bits = value.to_bits();
    let (exponent, fraction) = ((bits >> 52 & 0x7ff) as i32, bits & ((1 << 52) - 1));
    let (significand, exponent) = match exponent {
        0 => (fraction, -1074),
        exponent => (fraction | 1 << 52, exponent - 1075),
    };
    signed(negative, nearest(significand, exponent, EXPONENT_BITS, fraction_bits), infinity)
}

/// The bytes of a float with this sign. Its other bits must be less than those of infinity.
fn signed(negative: bool, magnitude: u64, infinity: u64) -> Result<[u8; 2], Misfit> {
    if magnitude >= infinity {
        return Err(Misfit::OutOfRange);
    }
    Ok((magnitude as u16 | u16::from(negative) << 15).to_le_bytes())
}

/// The bits, without the sign, of the float that is nearest to `significand` x 2^`exponent`; of two
/// that are equally near, the even one. They are those of infinity or greater if it is too large.
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

    /// Every float of 2 bytes is found, and so is the nearest one to what lies around the middle
    /// between it and the next.
    fn check<T: Target<Bytes = [u8; 2]>>(exponent_bits: u32) {
        let found = |value: f64| T::convert(Number::Float64(value)).map(u16::from_le_bytes);
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
        check::<Float16>(5);
        check::<Bfloat16>(8);
    }

    #[test]
    fn limits_of_floats() {
        let f32_of = |value: f64| f32::convert(Number::Float64(value)).map(f32::from_le_bytes);
        let limit = f64::from(f32::MAX) + 2f64.powi(102);
        assert_eq!(f32_of(limit.next_up().next_down()), f32_of(limit));
        assert_eq!(f32_of(2f64.powi(128)), Err(Misfit::OutOfRange));
        assert_eq!(f32_of(f64::from(f32::MAX)), Ok(f32::MAX));
        assert_eq!(f32_of(f64::INFINITY), Ok(f32::INFINITY));
        assert_eq!(f32::convert(Number::Float64(f64::NAN)), Ok(f32::NAN.to_le_bytes()));
        assert_eq!(f64::convert(Number::Float32(f32::NAN)), Ok(f64::NAN.to_le_bytes()));
    }

    proptest! {
        /// Integers are rounded once: to the float that is nearest to the integer.
        #[test]
        fn integers_as_bfloat16(value: u64, shift in 0u32..64) {
            let value = value >> shift;
            let bits = Bfloat16::convert(Number::Unsigned(value)).map(u16::from_le_bytes);
            let bits = bits.expect("no integer is out of its range");
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
