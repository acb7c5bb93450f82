//! Writes the strings of a field as Arrow's views, for consumers that make Arrow's arrays.

use pipemill_types::{Column, Field, Scalar};

use crate::layout::{VIEW_BYTES, VIEW_SPAN};

/// Longest string that is in its view, in bytes.
const INLINE: usize = 12;
/// The longest string that has a view.
const MAX_LENGTH: usize = i32::MAX as usize;
/// A payload that is not ASCII is checked as a whole if its texts are at least this part of it.
const WHOLE_PART: usize = 4;

/// What is known of the texts of a payload.
#[derive(Clone, Copy)]
pub(super) enum Texts<'a> {
    /// All bytes are ASCII.
    Ascii,
    /// All bytes together are UTF-8.
    Utf8(&'a str),
    /// Nothing.
    Unknown,
}

impl<'a> Texts<'a> {
    /// Checks a payload that has these columns of text.
    pub(super) fn of<'b>(
        payload: &'a [u8],
        texts: impl Iterator<Item = &'b Column> + Clone,
    ) -> Self {
        if texts.clone().next().is_none() {
            return Self::Unknown;
        }
        if payload.is_ascii() {
            return Self::Ascii;
        }
        // If there is little text, to check it alone takes less time.
        let bytes = texts.flat_map(Column::lengths).map(|length| *length as usize).sum::<usize>();
        let is_worth_it = bytes >= payload.len() / WHOLE_PART;
        let whole = is_worth_it.then(|| str::from_utf8(payload).ok()).flatten();
        whole.map_or(Self::Unknown, Self::Utf8)
    }
}

/// Writes a view of each string into `out`, which has 16 bytes for each. Returns false if a string
/// has no view: it is text that is not UTF-8, is too long, or does not lie in the payload.
pub(super) fn write_views(
    payload: &[u8],
    texts: Texts,
    field: &Field,
    column: &Column,
    out: &mut [u8],
) -> bool {
    let is_text = field.scalar == Scalar::Utf8;
    match texts {
        Texts::Utf8(text) if is_text => write(payload, column, out, |at, length| {
            length == 0 || text.is_char_boundary(at) && text.is_char_boundary(at + length)
        }),
        Texts::Unknown if is_text => {
            write(payload, column, out, |at, length| {
                // Outside of the payload there is no text, and no view is written.
                payload.get(at..at + length).is_none_or(is_utf8)
            })
        }
        _ => write(payload, column, out, |_, _| true),
    }
}
/// Writes the views of strings that `is_sound` accepts, by their places and lengths.
fn write(
    payload: &[u8],
    column: &Column,
    out: &mut [u8],
    is_sound: impl Fn(usize, usize) -> bool,
) -> bool {
    let (offsets, lengths) = (column.offsets(), column.lengths());
    if payload.len() > MAX_LENGTH && lengths.iter().any(|length| *length as usize > MAX_LENGTH) {
        return false;
    }
    let (views, _) = out.as_chunks_mut::<VIEW_BYTES>();
    views.iter_mut().zip(offsets.iter().zip(lengths)).all(|(view, (&at, &length))| {
        let (at, length) = (at as usize, length as usize);
        match view_of(payload, at, length) {
            Some(found) if is_sound(at, length) => *view = found.to_le_bytes(),
            _ => return false,
        }
        true
    })
}

/// The view of one string of the payload.
#[inline]
fn view_of(payload: &[u8], at: usize, length: usize) -> Option<u128> {
    let start = payload.get(at..at + length.max(VIEW_BYTES)).and_then(<[u8]>::first_chunk);
    if let Some(start) = start {
        return Some(view(start, at, length));
    }
    if length == 0 {
        // The field may be absent.
        return Some(0);
    }
    // The string is at the end of the payload.
    let value = payload.get(at..at + length)?;
    let mut start = [0; VIEW_BYTES];
    let known = length.min(VIEW_BYTES);
    start[..known].copy_from_slice(&value[..known]);
    Some(view(&start, at, length))
}

/// The view of a string: its length, then its bytes if they are at most 12; otherwise the first 4
/// of them, the number of the span of the payload that it begins in, and its place there. `start`:
/// the bytes from its first one on. There is no branch, because lengths differ from row to row.
#[inline]
fn view(start: &[u8; VIEW_BYTES], at: usize, length: usize) -> u128 {
    let [bytes, place] = MASKS[length.min(INLINE + 1)];
    let found = ((at % VIEW_SPAN) as u128) << 96 | ((at / VIEW_SPAN) as u128) << 64;
    u128::from_le_bytes(*start) << 32 & bytes | found & place | length as u128
}

/// For each length up to 12, and for all others: which bits of a view are bytes of the string, and
/// which are its place.
const MASKS: [[u128; 2]; INLINE + 2] = {
    let mut masks = [[0; 2]; INLINE + 2];
    let mut length = 0;
    while length <= INLINE {
        masks[length][0] = ((1 << (8 * length)) - 1) << 32;
        length += 1;
    }
    masks[length] = [0xffff_ffff << 32, u128::MAX << 64];
    masks
};

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

    /// Writes the views of a column, of whose payload is known what is known in a batch.
    fn write(payload: &[u8], scalar: Scalar, column: &Column, views: &mut [u8]) -> bool {
        let texts = (scalar == Scalar::Utf8).then_some(column);
        write_views(payload, Texts::of(payload, texts.into_iter()), &field(scalar), column, views)
    }

    /// What lies between strings: nothing, ASCII, other text, and bytes that are no text.
    const GAPS: [&[u8]; 5] = [b"", b" and ", "äöü€😀".as_bytes(), b"\xff", &[0x80; 40]];

    /// Strings of bytes, of text, and of ASCII.
    fn any_strings() -> impl Strategy<Value = Vec<Option<Vec<u8>>>> {
        let of = |one: BoxedStrategy<Vec<u8>>| prop::collection::vec(prop::option::of(one), 0..20);
        let text = |pattern: &'static str| pattern.prop_map(String::into_bytes).boxed();
        prop_oneof![
            of(prop::collection::vec(any::<u8>(), 0..20).boxed()),
            of(text("[a-zäöü€😀]{0,20}")),
            of(text("[a-z]{0,20}")),
        ]
    }

    proptest! {
        #[test]
        fn views_show_the_strings(strings_of in any_strings(), gap in prop::sample::select(&GAPS)) {
            let (mut payload, mut column) = (Vec::new(), Column::default());
            for string in &strings_of {
                let offset = if string.is_some() { payload.len() as u32 } else { ABSENT };
                column.push(offset, string.as_ref().map_or(0, Vec::len) as u32);
                payload.extend_from_slice(string.as_deref().unwrap_or_default());
                payload.extend(gap);
            }
            let expected: Vec<_> = strings_of.into_iter().map(Option::unwrap_or_default).collect();
            let mut views = vec![0xdb; VIEW_BYTES * expected.len()];
            prop_assert!(write(&payload, Scalar::Bytes, &column, &mut views));
            prop_assert_eq!(&strings(&payload, &views), &expected);
            let is_text = expected.iter().all(|string| str::from_utf8(string).is_ok());
            views.fill(0xdb);
            prop_assert_eq!(write(&payload, Scalar::Utf8, &column, &mut views), is_text);
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
            for padded in
                [text.to_vec(), [text, &[0xff; 20]].concat(), [text, &[b'x'; 999]].concat()]
            {
                let found = write(&padded, Scalar::Utf8, &column, &mut views);
                assert_eq!(found, is_text, "{length} bytes at {at}");
            }
        }
    }

    #[test]
    fn what_is_known_of_the_texts_is_true() {
        let (text, all) =
            ("äöü and more".as_bytes(), |bytes| Column::of_lists(vec![0], vec![bytes]));
        let of = |payload, column: Column| match Texts::of(payload, [&column].into_iter()) {
            Texts::Ascii => "ASCII",
            Texts::Utf8(whole) => {
                assert_eq!(whole.as_bytes(), payload);
                "UTF-8"
            }
            Texts::Unknown => "unknown",
        };
        assert_eq!(of(b"and more", all(1)), "ASCII");
        assert_eq!(of(text, all(text.len() as u32)), "UTF-8");
        assert_eq!(of(text, all(1)), "unknown");
        assert_eq!(of(b"\xff is more", all(11)), "unknown");
        assert!(matches!(Texts::of(b"and more", [].into_iter()), Texts::Unknown));
    }

    #[test]
    fn a_string_outside_of_the_payload_has_no_view() {
        for (at, length) in [(90, 11), (90, 13), (200, 1), (200, 20), (ABSENT, 5), (ABSENT, 50)] {
            let column = Column::of_lists(vec![at], vec![length]);
            let mut views = [0; VIEW_BYTES];
            for payload in [[b'x'; 100], [0xff; 100]] {
                for scalar in [Scalar::Bytes, Scalar::Utf8] {
                    assert!(!write(&payload, scalar, &column, &mut views));
                }
            }
        }
        let text = "ä".repeat(50);
        let column = Column::of_lists(vec![90, 0], vec![11, 90]);
        assert!(!write(text.as_bytes(), Scalar::Utf8, &column, &mut [0; 2 * VIEW_BYTES]));
    }
}
