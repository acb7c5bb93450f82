//! Prints a field's value as JSON: text as a string, numbers as numbers or nested arrays, bytes as
//! `{"base64":…}`. A value that does not fit the field's type is printed as bytes.

use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use pipemill_types::{Field, Scalar};

/// Prints the value of a field. `bytes` are the value as the decoder returned it, little-endian.
///
/// # Errors
/// `out` can't be written.
pub fn print(out: &mut impl Write, field: &Field, bytes: &[u8]) -> io::Result<()> {
    let size = field.scalar.size();
    match field.scalar {
        Scalar::Utf8 => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(serde_json::to_writer(out, text)?),
            Err(_) => print_base64(out, bytes),
        },
        Scalar::Bytes => print_base64(out, bytes),
        _ if !bytes.len().is_multiple_of(size) => print_base64(out, bytes),
        _ if field.shape.is_empty() && bytes.len() == size => {
            print_number(out, field.scalar, bytes)
        }
        _ => print_array(out, field.scalar, field.shape.get(1..).unwrap_or(&[]), bytes),
    }
}

fn print_base64(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    write!(out, "{{\"base64\":\"{}\"}}", STANDARD.encode(bytes))
}

/// Prints an array whose elements have the shape `inner`.
fn print_array(
    out: &mut impl Write,
    scalar: Scalar,
    inner: &[u32],
    bytes: &[u8],
) -> io::Result<()> {
    let element_size: usize =
        inner.iter().map(|dim| *dim as usize).product::<usize>() * scalar.size();
    out.write_all(b"[")?;
    for (index, element) in bytes.chunks(element_size.max(1)).enumerate() {
        if index > 0 {
            out.write_all(b",")?;
        }
        if inner.is_empty() {
            print_number(out, scalar, element)?;
        } else {
            print_array(out, scalar, &inner[1..], element)?;
        }
    }
    out.write_all(b"]")
}

/// Prints a number. NaN and the infinities are strings, because JSON has no numbers for them.
fn print_number(out: &mut impl Write, scalar: Scalar, bytes: &[u8]) -> io::Result<()> {
    fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
        let mut array = [0; N];
        let size = bytes.len().min(N);
        array[..size].copy_from_slice(&bytes[..size]);
        array
    }
    match scalar {
        Scalar::Boolean => write!(out, "{}", array::<1>(bytes)[0] != 0),
        Scalar::Int32 => write!(out, "{}", i32::from_le_bytes(array(bytes))),
        Scalar::Int64 => write!(out, "{}", i64::from_le_bytes(array(bytes))),
        Scalar::Float32 => match f32::from_le_bytes(array(bytes)) {
            number if number.is_finite() => Ok(serde_json::to_writer(out, &number)?),
            number => print_non_finite(out, f64::from(number)),
        },
        Scalar::Float64 => match f64::from_le_bytes(array(bytes)) {
            number if number.is_finite() => Ok(serde_json::to_writer(out, &number)?),
            number => print_non_finite(out, number),
        },
        Scalar::Bytes | Scalar::Utf8 => print_base64(out, bytes),
    }
}

/// Prints NaN or an infinity.
fn print_non_finite(out: &mut impl Write, number: f64) -> io::Result<()> {
    let word = match number {
        number if number.is_nan() => "NaN",
        number if number > 0.0 => "Infinity",
        _ => "-Infinity",
    };
    write!(out, "\"{word}\"")
}
