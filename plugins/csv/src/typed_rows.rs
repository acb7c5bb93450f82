//! The fast path for typed columns: [`PlainRows`](crate::plain_rows::PlainRows) splits the rows,
//! and their values are converted here. None has a doubled quote, and quotes around a value are not
//! part of it. A row with a value that does not fit is left to the scanner, whose sink reports the
//! fault.

use pipemill_parsing::numbers::{Number, trimmed};
use pipemill_plugin::{Records, Scalar};

use crate::guess::parse_boolean;
use crate::layout::{Layout, Pick};
use crate::plain_rows::{Places, PlainSink};
use crate::row_context::RowContext;

/// Emits the columns that the operator wants, with their types.
pub(crate) struct TypedRows<'a> {
    pub(crate) layout: &'a Layout,
    /// Whether the chunk is known to be UTF-8.
    pub(crate) is_utf8: bool,
}

/// A value that does not fit its column, or that is not plain.
struct Unfit;

impl PlainSink for TypedRows<'_> {
    const TAKES_INNER_LINES: bool = false;

    fn rows(&mut self, context: &mut RowContext, places: &Places) -> usize {
        let width = self.layout.names.len();
        let fields = places.starts.chunks_exact(width).zip(places.ends.chunks_exact(width));
        for (index, (row, (starts, ends))) in places.rows.iter().zip(fields).enumerate() {
            for pick in &self.layout.picks {
                let (start, end) = (starts[pick.column] as usize, ends[pick.column] as usize);
                if self.value(context, *pick, start, end).is_err() {
                    context.out.abandon_record();
                    return index;
                }
            }
            context.out.end_record(*row as usize);
        }
        places.rows.len()
    }
}

impl TypedRows<'_> {
    /// Emits a value: these bytes of the chunk.
    #[inline(always)]
    fn value(
        &self,
        context: &mut RowContext,
        pick: Pick,
        start: usize,
        end: usize,
    ) -> Result<(), Unfit> {
        let (bytes, null) = (context.chunk.bytes, context.null);
        let out = &mut *context.out;
        if !null.is_empty() && is_null(null, &bytes[start..end]) {
            out.absent();
            return Ok(());
        }
        match pick.scalar {
            Scalar::Int32 => number(out, bytes, start, end, i32::to_le_bytes),
            Scalar::Int64 if pick.is_learnt && is_code(&bytes[start..end]) => Err(Unfit),
            Scalar::Int64 => number(out, bytes, start, end, i64::to_le_bytes),
            Scalar::Float32 => number(out, bytes, start, end, f32::to_le_bytes),
            Scalar::Float64 => number(out, bytes, start, end, f64::to_le_bytes),
            Scalar::Boolean => boolean(out, &bytes[start..end]),
            Scalar::Utf8 if !self.is_utf8 && str::from_utf8(&bytes[start..end]).is_err() => {
                Err(Unfit)
            }
            // Checked text, or bytes: the option `types` accepts no other type.
            _ => {
                out.field(start..end);
                Ok(())
            }
        }
    }
}

/// Whether a value is one of the null words.
pub(crate) fn is_null(null: &[Vec<u8>], value: &[u8]) -> bool {
    let text = trimmed(value);
    null.iter().any(|word| word == text)
}

/// Whether such a value would have made the column text in the first rows: `007`, or a phone number
/// with `+`. As a number it would lose its first characters.
#[inline(always)]
pub(crate) fn is_code(value: &[u8]) -> bool {
    // Nearly all integers begin like this.
    !matches!(value.first(), Some(b'1'..=b'9')) && begins_like_code(value)
}

#[inline(never)]
fn begins_like_code(value: &[u8]) -> bool {
    match value {
        [b'0', b'0'..=b'9', ..] => true,
        [b'+', rest @ ..] => rest.len() > 7,
        _ => false,
    }
}

#[inline(always)]
fn number<N: Number, const SIZE: usize>(
    out: &mut Records,
    bytes: &[u8],
    start: usize,
    end: usize,
    to_bytes: fn(N) -> [u8; SIZE],
) -> Result<(), Unfit> {
    if start == end {
        out.absent();
        return Ok(());
    }
    match N::read(bytes, start, end) {
        Some(number) => out.field_bytes(&to_bytes(number)),
        None if trimmed(&bytes[start..end]).is_empty() => out.absent(),
        None => return Err(Unfit),
    }
    Ok(())
}

fn boolean(out: &mut Records, value: &[u8]) -> Result<(), Unfit> {
    let text = trimmed(value);
    match parse_boolean(text) {
        Some(value) => out.bool(value),
        None if text.is_empty() => out.absent(),
        None => return Err(Unfit),
    }
    Ok(())
}
