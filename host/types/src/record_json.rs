//! Prints a field's value as JSON: text as a string, numbers as numbers or nested arrays, bytes as
//! `{"base64":…}`. A value that does not fit the field's type is printed as bytes.

use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::json::to_writer;
use crate::{Field, Scalar, category, list_elements, list_problem};

/// Prints the value of a field. `bytes` are the value as the decoder returned it, little-endian.
///
/// # Errors
/// `out` can't be written.
pub fn print(out: &mut impl Write, field: &Field, bytes: &[u8]) -> io::Result<()> {
    let size = field.scalar.size();
    match field.scalar {
        Scalar::Bytes | Scalar::Utf8 if field.is_list() => print_list(out, field.scalar, bytes),
        Scalar::Bytes | Scalar::Utf8 => print_string(out, field.scalar, bytes),
        _ if !field.categories.is_empty() => print_category(out, field, bytes),
        _ if !bytes.len().is_multiple_of(size) => print_base64(out, bytes),
        _ if field.shape.is_empty() && bytes.len() == size => {
            print_number(out, field.scalar, bytes)
        }
        _ => print_array(out, field.scalar, field.shape.get(1..).unwrap_or(&[]), bytes),
    }
}

/// Prints a record as an object of its fields. `value` gives the bytes of the field with this
/// index; `None` if it is absent.
///
/// # Errors
/// `out` can't be written.
pub fn print_object<'v>(
    out: &mut impl Write,
    fields: &[Field],
    value: impl Fn(usize) -> Option<&'v [u8]>,
) -> io::Result<()> {
    out.write_all(b"{")?;
    for (index, field) in fields.iter().enumerate() {
        if index > 0 {
            out.write_all(b",")?;
        }
        to_writer(&mut *out, &field.name)?;
        out.write_all(b":")?;
        match value(index) {
            Some(bytes) => print(out, field, bytes)?,
            None => out.write_all(b"null")?,
        }
    }
    out.write_all(b"}")
}

fn print_base64(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    write!(out, "{{\"base64\":\"{}\"}}", STANDARD.encode(bytes))
}

fn print_string(out: &mut impl Write, scalar: Scalar, bytes: &[u8]) -> io::Result<()> {
    match std::str::from_utf8(bytes) {
        Ok(text) if scalar == Scalar::Utf8 => Ok(to_writer(out, text)?),
        _ => print_base64(out, bytes),
    }
}

/// Prints a list of bytes or text.
fn print_list(out: &mut impl Write, scalar: Scalar, bytes: &[u8]) -> io::Result<()> {
    if list_problem(bytes).is_some() {
        return print_base64(out, bytes);
    }
    out.write_all(b"[")?;
    for (index, element) in list_elements(bytes).enumerate() {
        if index > 0 {
            out.write_all(b",")?;
        }
        print_string(out, scalar, element)?;
    }
    out.write_all(b"]")
}

/// Prints the text that a value stands for; the value itself if it stands for none.
fn print_category(out: &mut impl Write, field: &Field, bytes: &[u8]) -> io::Result<()> {
    match category(field, bytes) {
        Some(text) => Ok(to_writer(out, text)?),
        None => print_number(out, field.scalar, bytes),
    }
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
        Scalar::Int8 => write!(out, "{}", i8::from_le_bytes(array(bytes))),
        Scalar::Int16 => write!(out, "{}", i16::from_le_bytes(array(bytes))),
        Scalar::Uint8 => write!(out, "{}", u8::from_le_bytes(array(bytes))),
        Scalar::Uint16 => write!(out, "{}", u16::from_le_bytes(array(bytes))),
        Scalar::Uint32 => write!(out, "{}", u32::from_le_bytes(array(bytes))),
        Scalar::Uint64 => write!(out, "{}", u64::from_le_bytes(array(bytes))),
        Scalar::Float16 => print_f32(out, half::f16::from_le_bytes(array(bytes)).to_f32()),
        Scalar::Bfloat16 => print_f32(out, half::bf16::from_le_bytes(array(bytes)).to_f32()),
        Scalar::Int32 => write!(out, "{}", i32::from_le_bytes(array(bytes))),
        Scalar::Int64 => write!(out, "{}", i64::from_le_bytes(array(bytes))),
        Scalar::Float32 => print_f32(out, f32::from_le_bytes(array(bytes))),
        Scalar::Float64 => match f64::from_le_bytes(array(bytes)) {
            number if number.is_finite() => Ok(to_writer(out, &number)?),
            number => print_non_finite(out, number),
        },
        Scalar::Bytes | Scalar::Utf8 => print_base64(out, bytes),
    }
}

fn print_f32(out: &mut impl Write, number: f32) -> io::Result<()> {
    match number.is_finite() {
        true => Ok(to_writer(out, &number)?),
        false => print_non_finite(out, f64::from(number)),
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
