//! The values of a page, in each of Parquet's encodings.

use std::ops::Range;

use pipemill_parsing::blocks::are_text;

use crate::columns::Physical;
use crate::convert::{Convert, no_text};
use crate::delta::Delta;
use crate::hybrid::Hybrid;
use crate::rows::Sink;

/// The most bytes of a value that is copied with bytes after it.
const SHORT: usize = 16;
/// Bytes that are made room for at a time.
const ROOM: usize = 16 << 10;

/// Values of fields, one after the other: a dictionary, or the elements of a list.
#[derive(Debug, Default)]
pub(crate) struct Converted {
    pub(crate) bytes: Vec<u8>,
    /// Where each ends, if they have different sizes.
    pub(crate) ends: Vec<u32>,
    /// Bytes of each, if they have one size.
    pub(crate) size: Option<usize>,
}

impl Converted {
    /// Where values are appended.
    pub(crate) fn sink(&mut self) -> Sink<'_> {
        let ends = self.size.is_none().then_some(&mut self.ends);
        Sink { bytes: &mut self.bytes, ends, start: 0 }
    }

    fn len(&self) -> usize {
        self.size.map_or(self.ends.len(), |size| self.bytes.len() / size)
    }

    /// Appends the values with these numbers. After an error, those before it are appended.
    fn append(&self, numbers: &[u32], sink: &mut Sink<'_>) -> Result<(), String> {
        let most = self.len();
        let largest = numbers.iter().fold(0, |largest, number| (*number).max(largest));
        let known = match (largest as usize) < most {
            true => numbers.len(),
            false => numbers.iter().take_while(|number| (**number as usize) < most).count(),
        };
        let (numbers, unknown) = numbers.split_at(known);
        match self.size {
            Some(4) => append_fixed::<4>(&self.bytes, numbers, sink),
            Some(8) => append_fixed::<8>(&self.bytes, numbers, sink),
            Some(size) => numbers.iter().for_each(|number| {
                sink.bytes.extend_from_slice(&self.bytes[*number as usize * size..][..size]);
            }),
            None => self.append_sized(numbers, sink),
        }
        match unknown.first() {
            Some(found) => Err(format!("expected an index below {most}, found {found}")),
            None => Ok(()),
        }
    }

    fn append_sized(&self, numbers: &[u32], sink: &mut Sink<'_>) {
        let mut numbers = numbers.iter();
        let count = numbers.len();
        let range = |number: &u32| {
            let number = *number as usize;
            let start = if number == 0 { 0 } else { self.ends[number - 1] as usize };
            start..self.ends[number] as usize
        };
        // All of them are known.
        let next = || Ok(numbers.next().map_or(0..0, range));
        let _ = append(&self.bytes, sink, count, next);
    }

    /// Appends all values as one list: their offsets, then their bytes.
    pub(crate) fn append_as_list(&self, out: &mut Vec<u8>) {
        let first = 4 * (self.ends.len() as u32 + 1);
        out.extend_from_slice(&first.to_le_bytes());
        for end in &self.ends {
            out.extend_from_slice(&(first + end).to_le_bytes());
        }
        out.extend_from_slice(&self.bytes);
    }
}

/// Appends the values of N bytes with these numbers, which there are.
fn append_fixed<const N: usize>(values: &[u8], numbers: &[u32], sink: &mut Sink<'_>) {
    let (values, _) = values.as_chunks::<N>();
    let from = sink.bytes.len();
    sink.bytes.resize(from + N * numbers.len(), 0);
    let (places, _) = sink.bytes[from..].as_chunks_mut::<N>();
    for (place, number) in places.iter_mut().zip(numbers) {
        *place = values[*number as usize];
    }
}

/// A position in the values of a page. The page's bytes are passed to each call.
#[derive(Debug)]
pub(crate) enum Values {
    Fixed {
        at: usize,
        size: usize,
    },
    /// The bit of the next boolean.
    Booleans {
        bit: u64,
    },
    Bytes {
        at: usize,
    },
    /// Indices into the dictionary.
    Indices(Hybrid),
    /// Booleans in runs.
    Runs(Hybrid),
    /// Integers of this number of bytes.
    Deltas {
        delta: Delta,
        size: usize,
    },
    /// Lengths, and the place of the next value.
    Lengths {
        delta: Delta,
        at: usize,
    },
    /// Lengths of what a value has in common with the one before, and of the rest.
    Prefixes {
        prefixes: Delta,
        lengths: Delta,
        at: usize,
        last: Vec<u8>,
    },
    /// The first bytes of all values, then the second ones. `next` of `count` values comes next.
    Split {
        at: usize,
        size: usize,
        count: usize,
        next: usize,
    },
}

/// The names of encodings, by their numbers.
pub(crate) fn encoding_name(encoding: i32) -> String {
    let name = match encoding {
        0 => "PLAIN",
        2 => "PLAIN_DICTIONARY",
        3 => "RLE",
        4 => "BIT_PACKED",
        5 => "DELTA_BINARY_PACKED",
        6 => "DELTA_LENGTH_BYTE_ARRAY",
        7 => "DELTA_BYTE_ARRAY",
        8 => "RLE_DICTIONARY",
        9 => "BYTE_STREAM_SPLIT",
        other => return format!("number {other}"),
    };
    name.to_owned()
}

/// Reads values without a dictionary.
pub(crate) fn plain(at: usize, physical: Physical) -> Values {
    match physical {
        Physical::Boolean => Values::Booleans { bit: at as u64 * 8 },
        Physical::Fixed(size) => Values::Fixed { at, size },
        Physical::Bytes => Values::Bytes { at },
    }
}

impl Values {
    /// The values that begin at `range.start` of a page. `most` is the number of values that there
    /// can be. `None` if the encoding does not fit the type, or is not known.
    pub(crate) fn new(
        encoding: i32,
        physical: Physical,
        bytes: &[u8],
        range: Range<usize>,
        most: u64,
    ) -> Option<Result<Self, String>> {
        let at = range.start;
        let delta = |at| {
            Delta::new(bytes, at).and_then(|delta| match delta.left > most {
                true => Err(format!("expected at most {most} values, found {}", delta.left)),
                false => Ok(delta),
            })
        };
        Some(match (encoding, physical) {
            (0, _) => Ok(plain(at, physical)),
            (2 | 8, _) => indices(bytes, range),
            (3, Physical::Boolean) => runs(bytes, range),
            (5, Physical::Fixed(size @ (4 | 8))) => {
                delta(at).map(|delta| Self::Deltas { delta, size })
            }
            (6, Physical::Bytes) => {
                delta(at).and_then(|delta| Ok(Self::Lengths { at: delta.end(bytes)?, delta }))
            }
            (7, Physical::Bytes | Physical::Fixed(_)) => delta(at).and_then(|prefixes| {
                let lengths = delta(prefixes.end(bytes)?)?;
                let at = lengths.end(bytes)?;
                Ok(Self::Prefixes { prefixes, lengths, at, last: Vec::new() })
            }),
            (9, Physical::Fixed(size)) => {
                let count = range.len() / size;
                Ok(Self::Split { at, size, count, next: 0 })
            }
            _ => return None,
        })
    }

    /// Appends the next values. After an error, those before it are appended.
    pub(crate) fn take(
        &mut self,
        count: usize,
        page: &[u8],
        dictionary: Option<&Converted>,
        convert: Convert,
        sink: &mut Sink<'_>,
        scratch: &mut Vec<u32>,
    ) -> Result<(), String> {
        match self {
            Self::Fixed { at, size } => {
                let there = count.min(page.len().saturating_sub(*at) / *size);
                let stored = &page[*at..*at + there * *size];
                *at += stored.len();
                convert.push_all(stored, *size, sink)?;
                if there < count { Err(cut(page, *at)) } else { Ok(()) }
            }
            Self::Booleans { bit } => {
                let end = (*bit + count as u64).min(page.len() as u64 * 8);
                let of = |at: u64| page[(at / 8) as usize] >> (at % 8) & 1;
                sink.bytes.extend((*bit..end).map(of));
                let is_cut = end - *bit < count as u64;
                *bit = end;
                if is_cut { Err(cut(page, page.len())) } else { Ok(()) }
            }
            Self::Bytes { at } if convert.is_same_bytes() => {
                let from = sink.count();
                let result = append(page, sink, count, || {
                    let size = size_at(page, *at).ok_or_else(|| cut(page, *at))?;
                    let start = *at + 4;
                    *at = start + size;
                    Ok(start..*at)
                });
                check_text(convert, sink, from)?;
                result
            }
            Self::Bytes { at } => (0..count).try_for_each(|_| {
                let stored = sized(page, *at).ok_or_else(|| cut(page, *at))?;
                *at += 4 + stored.len();
                convert.push(stored, sink)
            }),
            Self::Indices(indices) => {
                let dictionary = dictionary.ok_or("expected a dictionary before it, found none")?;
                scratch.clear();
                let result = indices.take(page, count, scratch);
                dictionary.append(scratch, sink)?;
                result
            }
            Self::Runs(runs) => {
                scratch.clear();
                let result = runs.take(page, count, scratch);
                sink.bytes.extend(scratch.iter().map(|value| *value as u8));
                result
            }
            Self::Deltas { delta, size } => (0..count)
                .try_for_each(|_| convert.push(&delta.next(page)?.to_le_bytes()[..*size], sink)),
            Self::Lengths { delta, at } => (0..count).try_for_each(|_| {
                let stored = next(page, at, delta.next(page)?)?;
                convert.push(stored, sink)
            }),
            Self::Prefixes { prefixes, lengths, at, last } => (0..count).try_for_each(|_| {
                let prefix = prefixes.next(page)?;
                let rest = next(page, at, lengths.next(page)?)?;
                let common = usize::try_from(prefix).ok().filter(|size| *size <= last.len());
                let common = common.ok_or_else(|| {
                    let most = last.len();
                    format!("expected at most {most} bytes in common with the value before, found {prefix}")
                })?;
                last.truncate(common);
                last.extend_from_slice(rest);
                convert.push(last, sink)
            }),
            Self::Split { at, size, count: all, next } => {
                let there = count.min(*all - *next);
                let mut values = vec![0; *size * there];
                for byte in 0..*size {
                    let of_all = &page[*at + byte * *all + *next..][..there];
                    let places = values.iter_mut().skip(byte).step_by(*size);
                    places.zip(of_all).for_each(|(place, byte)| *place = *byte);
                }
                *next += there;
                convert.push_all(&values, *size, sink)?;
                if there < count { Err(cut(page, page.len())) } else { Ok(()) }
            }
        }
    }
}

/// Appends `count` values, which are parts of `from`. `next` says where the next one lies. After an
/// error, those before it are appended.
#[inline]
fn append(
    from: &[u8],
    sink: &mut Sink<'_>,
    count: usize,
    mut next: impl FnMut() -> Result<Range<usize>, String>,
) -> Result<(), String> {
    let out = &mut *sink.bytes;
    let mut to = out.len();
    let mut result = Ok(());
    for _ in 0..count {
        let range = match next() {
            Ok(range) => range,
            Err(why) => {
                result = Err(why);
                break;
            }
        };
        let end = to + range.len();
        // Short values are copied with bytes after them, which the next value replaces.
        if end + SHORT > out.len() {
            out.resize((end + SHORT).max(to + ROOM), 0);
        }
        copy(from, range, out, to);
        to = end;
        if let Some(ends) = &mut sink.ends {
            ends.push((to - sink.start) as u32);
        }
    }
    out.truncate(to);
    result
}

/// Copies a value. A copy of a fixed number of bytes is no call.
#[inline]
fn copy(from: &[u8], range: Range<usize>, out: &mut [u8], to: usize) {
    if range.len() <= SHORT
        && let Some(source) = from.get(range.start..).and_then(<[u8]>::first_chunk::<SHORT>)
        && let Some(place) = out.get_mut(to..).and_then(<[u8]>::first_chunk_mut::<SHORT>)
    {
        *place = *source;
        return;
    }
    out[to..to + range.len()].copy_from_slice(&from[range]);
}

/// Checks the values from this number on, if they are text. The one that is no text and those after
/// it are removed.
fn check_text(convert: Convert, sink: &mut Sink<'_>, from: usize) -> Result<(), String> {
    let (Convert::Text, Some(ends)) = (convert, &mut sink.ends) else { return Ok(()) };
    let place = |end: &u32| sink.start + *end as usize;
    let start = from.checked_sub(1).map_or(sink.start, |last| place(&ends[last]));
    if are_text(&sink.bytes[start..], ends[from..].iter().map(|end| place(end) - start)) {
        return Ok(());
    }
    let mut at = start;
    for number in from..ends.len() {
        let end = place(&ends[number]);
        if let Err(error) = std::str::from_utf8(&sink.bytes[at..end]) {
            sink.bytes.truncate(at);
            ends.truncate(number);
            return Err(no_text(&error));
        }
        at = end;
    }
    Ok(())
}

fn indices(bytes: &[u8], range: Range<usize>) -> Result<Values, String> {
    match bytes.get(range.start) {
        // A page whose values all are absent has no width.
        None => Hybrid::new(range, 0).map(Values::Indices),
        Some(width) => Hybrid::new(range.start + 1..range.end, *width).map(Values::Indices),
    }
}

fn runs(bytes: &[u8], range: Range<usize>) -> Result<Values, String> {
    let size = sized(bytes, range.start).map(<[u8]>::len);
    let size = size.ok_or_else(|| cut(bytes, range.start))?;
    let start = range.start + 4;
    Hybrid::new(start..start + size, 1).map(Values::Runs)
}

/// The bytes after their length.
pub(crate) fn sized(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let size = size_at(bytes, at)?;
    bytes.get(at + 4..at + 4 + size)
}

/// The length of the bytes after it, if they are there.
#[inline]
fn size_at(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = bytes.get(at..)?;
    let size = u32::from_le_bytes(*rest.first_chunk::<4>()?) as usize;
    (size <= rest.len() - 4).then_some(size)
}

/// The next value of this length, and goes on after it.
fn next<'p>(page: &'p [u8], at: &mut usize, length: i64) -> Result<&'p [u8], String> {
    let stored = usize::try_from(length).ok().and_then(|size| page.get(*at..)?.get(..size));
    let stored = stored
        .ok_or_else(|| format!("expected a value of {length} bytes at +{at}, found the end"))?;
    *at += stored.len();
    Ok(stored)
}

fn cut(page: &[u8], at: usize) -> String {
    format!("expected more values after +{at}, found the end of its {} bytes", page.len())
}
