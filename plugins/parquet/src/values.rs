//! The values of a page, in each of Parquet's encodings.

use std::ops::Range;

use crate::columns::Physical;
use crate::convert::Convert;
use crate::delta::Delta;
use crate::hybrid::{Hybrid, bits};

/// Values of fields, one after the other, with their ends.
#[derive(Debug, Default)]
pub(crate) struct Converted {
    pub(crate) bytes: Vec<u8>,
    pub(crate) ends: Vec<u32>,
}

impl Converted {
    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<&[u8]> {
        let end = *self.ends.get(at)? as usize;
        let start = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        self.bytes.get(start..end)
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

    /// Appends the next values.
    pub(crate) fn take(
        &mut self,
        count: usize,
        page: &[u8],
        dictionary: Option<&Converted>,
        convert: Convert,
        out: &mut Converted,
        scratch: &mut Vec<u32>,
    ) -> Result<(), String> {
        let mut push = |stored: &[u8]| {
            convert.push(stored, &mut out.bytes)?;
            out.ends.push(out.bytes.len() as u32);
            Ok::<_, String>(())
        };
        match self {
            Self::Fixed { at, size } => {
                let all = count * *size;
                let stored = page.get(*at..*at + all).ok_or_else(|| cut(page, *at))?;
                *at += all;
                stored.chunks_exact(*size).try_for_each(push)
            }
            Self::Booleans { bit } => {
                if (*bit + count as u64).div_ceil(8) > page.len() as u64 {
                    return Err(cut(page, (*bit / 8) as usize));
                }
                for at in *bit..*bit + count as u64 {
                    push(&[bits(page, at, 1) as u8])?;
                }
                *bit += count as u64;
                Ok(())
            }
            Self::Bytes { at } => (0..count).try_for_each(|_| {
                let stored = sized(page, *at).ok_or_else(|| cut(page, *at))?;
                *at += 4 + stored.len();
                push(stored)
            }),
            Self::Indices(indices) => {
                let dictionary = dictionary.ok_or("expected a dictionary before it, found none")?;
                scratch.clear();
                indices.take(page, count, scratch)?;
                for index in scratch.iter() {
                    let value = dictionary.get(*index as usize).ok_or_else(|| {
                        let most = dictionary.ends.len();
                        format!("expected an index below {most}, found {index}")
                    })?;
                    out.bytes.extend_from_slice(value);
                    out.ends.push(out.bytes.len() as u32);
                }
                Ok(())
            }
            Self::Runs(runs) => {
                scratch.clear();
                runs.take(page, count, scratch)?;
                scratch.iter().try_for_each(|value| push(&[*value as u8]))
            }
            Self::Deltas { delta, size } => (0..count)
                .try_for_each(|_| push(&delta.next(page)?.to_le_bytes()[..*size])),
            Self::Lengths { delta, at } => (0..count).try_for_each(|_| {
                let stored = next(page, at, delta.next(page)?)?;
                push(stored)
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
                push(last)
            }),
            Self::Split { at, size, count: all, next } => {
                if *next + count > *all {
                    return Err(cut(page, page.len()));
                }
                let mut value = vec![0; *size];
                for number in *next..*next + count {
                    for (byte, place) in value.iter_mut().zip((*at + number..).step_by(*all)) {
                        *byte = page[place];
                    }
                    push(&value)?;
                }
                *next += count;
                Ok(())
            }
        }
    }
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
    let size = bytes.get(at..)?.first_chunk::<4>()?;
    let size = u32::from_le_bytes(*size) as usize;
    bytes.get(at + 4..)?.get(..size)
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
