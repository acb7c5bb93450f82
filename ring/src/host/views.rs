//! Writes the strings of a field as Arrow's views, for consumers that make Arrow's arrays.

use pipemill_types::{Column, Field, Scalar};

use crate::layout::{VIEW_BYTES, VIEW_SPAN};

/// Longest string that is in its view, in bytes.
const INLINE: usize = 12;
/// The first bit of each byte, which no byte of ASCII has.
const NOT_ASCII: u128 = u128::from_le_bytes([0x80; 16]);

/// Writes a view of each string into `out`, which has 16 bytes for each. Returns false if a string
/// has no view: it is text that is not UTF-8, is too long, or does not lie in the payload.
pub(super) fn write_views(payload: &[u8], field: &Field, column: &Column, out: &mut [u8]) -> bool {
    let is_text = field.scalar == Scalar::Utf8;
    let (views, _) = out.as_chunks_mut::<VIEW_BYTES>();
    let spans = column.offsets().iter().zip(column.lengths());
    views.iter_mut().zip(spans).all(|(view, (&at, &length))| {
        match view_of(payload, at as usize, length as usize, is_text) {
            Some(found) => *view = found.to_le_bytes(),
            None => return false,
        }
        true
    })
}

/// The view of one string: its length, then its bytes if they are at most 12; otherwise the first 4
/// of them, the number of the span of the payload that it begins in, and its place there.
#[inline]
fn view_of(payload: &[u8], at: usize, length: usize, is_text: bool) -> Option<u128> {
    if length > INLINE {
        let value = payload.get(at..at + length)?;
        let prefix = u32::from_le_bytes(*value.first_chunk()?);
        if i32::try_from(length).is_err() || is_text && !is_utf8(value) {
            return None;
        }
        let place = ((at % VIEW_SPAN) as u128) << 96 | ((at / VIEW_SPAN) as u128) << 64;
        return Some(place | u128::from(prefix) << 32 | length as u128);
    }
    if length == 0 {
        // The field may be absent.
        return Some(0);
    }
    let bytes = match payload.get(at..).and_then(<[u8]>::first_chunk::<16>) {
        Some(bytes) => u128::from_le_bytes(*bytes) & ((1 << (8 * length)) - 1),
        // The string is at the end of the payload.
        None => {
            let mut bytes = [0; 16];
            bytes[..length].copy_from_slice(payload.get(at..at + length)?);
            u128::from_le_bytes(bytes)
        }
    };
    if is_text && bytes & NOT_ASCII != 0 && !is_utf8(&payload[at..at + length]) {
        return None;
    }
    Some(bytes << 32 | length as u128)
}

/// Whether this is UTF-8. Most texts are ASCII, which is found sooner.
fn is_utf8(text: &[u8]) -> bool {
    text.is_ascii() || str::from_utf8(text).is_ok()
}

#[cfg(test)]
mod tests {
    use pipemill_types::ABSENT;
    use proptest::prelude::*;

    use super::*;

    fn field(scalar: Scalar) -> Field {
        Field::new("x", scalar, Vec::new())
    }

    /// The strings that these views show.
    fn strings(payload: &[u8], views: &[u8]) -> Vec<Vec<u8>> {
        let (views, _) = views.as_chunks::<VIEW_BYTES>();
        let number = |view: &[u8; 16], at: usize| {
            u32::from_le_bytes(*view[at..].first_chunk().unwrap()) as usize
        };
        let string = |view: &[u8; 16]| {
            let length = number(view, 0);
            if length <= INLINE {
                assert!(view[4 + length..].iter().all(|byte| *byte == 0), "{view:?}");
                return view[4..4 + length].to_vec();
            }
            let at = number(view, 8) * VIEW_SPAN + number(view, 12);
            assert_eq!(view[4..8], payload[at..at + 4]);
            payload[at..at + length].to_vec()
        };
        views.iter().map(string).collect()
    }

    proptest! {
        #[test]
        fn views_show_the_strings(
            strings_of in prop::collection::vec(
                prop::option::of(prop::collection::vec(any::<u8>(), 0..20)), 0..20
            ),
            gap in 0usize..20,
        ) {
            let (mut payload, mut column) = (Vec::new(), Column::default());
            for string in &strings_of {
                let offset = if string.is_some() { payload.len() as u32 } else { ABSENT };
                column.push(offset, string.as_ref().map_or(0, Vec::len) as u32);
                payload.extend_from_slice(string.as_deref().unwrap_or_default());
                payload.extend(std::iter::repeat_n(0xff, gap));
            }
            let expected: Vec<_> = strings_of.into_iter().map(Option::unwrap_or_default).collect();
            let mut views = vec![0xdb; VIEW_BYTES * expected.len()];
            prop_assert!(write_views(&payload, &field(Scalar::Bytes), &column, &mut views));
            prop_assert_eq!(&strings(&payload, &views), &expected);
            let is_text = expected.iter().all(|string| str::from_utf8(string).is_ok());
            prop_assert_eq!(
                write_views(&payload, &field(Scalar::Utf8), &column, &mut views), is_text
            );
            if is_text {
                prop_assert_eq!(&strings(&payload, &views), &expected);
            }
        }
    }

    #[test]
    fn text_is_checked_by_itself() {
        let text = "äöü€😀 and more than twelve".as_bytes();
        for (at, length, is_text) in [(0, 2, true), (0, 1, false), (1, 3, false), (0, 28, true)] {
            let column = Column::of_lists(vec![at], vec![length]);
            let mut views = [0; VIEW_BYTES];
            for padded in [text.to_vec(), [text, &[0xff; 20]].concat()] {
                let found = write_views(&padded, &field(Scalar::Utf8), &column, &mut views);
                assert_eq!(found, is_text, "{length} bytes at {at}");
            }
        }
    }

    #[test]
    fn a_string_outside_of_the_payload_has_no_view() {
        for (at, length) in [(90, 11), (90, 13), (200, 1), (200, 20), (ABSENT, 5), (ABSENT, 50)] {
            let column = Column::of_lists(vec![at], vec![length]);
            let mut views = [0; VIEW_BYTES];
            assert!(!write_views(&[b'x'; 100], &field(Scalar::Bytes), &column, &mut views));
        }
    }
}
