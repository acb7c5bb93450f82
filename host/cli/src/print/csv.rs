//! Records as CSV: a header, then a row for each record. Quotes follow RFC 4180; lines end as Unix
//! tools expect.

use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use pipemill_types::{Field, Scalar, category};

use super::records::Records;
use pipemill_types::record_json as json;

/// Writes the names of the fields.
pub(super) fn print_header(out: &mut impl Write, fields: &[Field]) -> io::Result<()> {
    for (index, field) in fields.iter().enumerate() {
        separate(out, index)?;
        print_text(out, field.name.as_bytes())?;
    }
    out.write_all(b"\n")
}

/// Writes a row for each record.
pub(super) fn print(
    out: &mut impl Write,
    fields: &[Field],
    records: &Records<'_>,
) -> io::Result<()> {
    for record in records.range.clone() {
        for (index, field) in fields.iter().enumerate() {
            separate(out, index)?;
            match records.value(index, record) {
                Some(value) => print_value(out, field, value)?,
                // An empty line would not be a row.
                None if fields.len() == 1 => out.write_all(b"\"\"")?,
                None => {}
            }
        }
        out.write_all(b"\n")?;
    }
    Ok(())
}

fn separate(out: &mut impl Write, index: usize) -> io::Result<()> {
    if index > 0 { out.write_all(b",") } else { Ok(()) }
}

/// Writes a value: text and numbers unchanged, bytes in base64, arrays and lists as JSON.
fn print_value(out: &mut impl Write, field: &Field, value: &[u8]) -> io::Result<()> {
    if let Some(text) = category(field, value) {
        return print_text(out, text.as_bytes());
    }
    match field.scalar {
        Scalar::Utf8 if field.is_text() && std::str::from_utf8(value).is_ok() => {
            print_text(out, value)
        }
        Scalar::Utf8 | Scalar::Bytes if field.is_text() => {
            out.write_all(STANDARD.encode(value).as_bytes())
        }
        _ if !field.shape.is_empty() => {
            let mut text = Vec::new();
            json::print(&mut text, field, value)?;
            print_text(out, &text)
        }
        _ => {
            let mut text = Vec::new();
            json::print(&mut text, field, value)?;
            // The JSON printer writes NaN and the infinities as strings.
            out.write_all(
                text.trim_ascii()
                    .strip_prefix(b"\"")
                    .map_or(&text[..], |text| text.strip_suffix(b"\"").unwrap_or(text)),
            )
        }
    }
}

/// Writes text, in quotes if necessary. Empty text is quoted: without quotes it would be an absent
/// value.
fn print_text(out: &mut impl Write, text: &[u8]) -> io::Result<()> {
    let is_special = |byte: &u8| matches!(byte, b'"' | b',' | b'\r' | b'\n');
    let at_edge = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_whitespace);
    if !text.iter().any(is_special) && !at_edge(text.first()) && !at_edge(text.last()) {
        return out.write_all(text);
    }
    out.write_all(b"\"")?;
    for part in text.split_inclusive(|byte| *byte == b'"') {
        out.write_all(part)?;
        if part.ends_with(b"\"") {
            out.write_all(b"\"")?;
        }
    }
    out.write_all(b"\"")
}
