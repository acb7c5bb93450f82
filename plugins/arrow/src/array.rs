//! The values of a column in a batch: which buffers they are in, and how one of them is found.

use std::ops::Range;

use pipemill_plugin::Records;

use crate::columns::{Leaf, ListForm, Slot, Storage};
use crate::message::BatchHeader;

/// Bytes of a view, and of a value that is in its view.
const VIEW: usize = 16;
const SHORT: usize = 12;

/// A buffer.
#[derive(Debug)]
pub(crate) enum Stored {
    /// Bytes of the message.
    Message(Range<usize>),
    /// Decompressed bytes.
    Own(Vec<u8>),
}

impl Stored {
    fn bytes<'a>(&'a self, message: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Message(range) => message.get(range.clone()).unwrap_or_default(),
            Self::Own(bytes) => bytes,
        }
    }
}

/// Why a buffer can't be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LoadError {
    Bad(String),
    /// It has more bytes than the call may produce.
    NoRoom(String),
}

impl From<String> for LoadError {
    fn from(message: String) -> Self {
        Self::Bad(message)
    }
}

/// Finds and decompresses the buffers of a batch.
pub(crate) struct Loader<'a, 'b> {
    pub(crate) header: &'a BatchHeader<'a>,
    /// The place of the message in the chunk, and of the body in the message.
    pub(crate) message: Range<usize>,
    pub(crate) body: usize,
    pub(crate) chunk: &'a [u8],
    pub(crate) out: &'b mut Records,
    /// Number of bytes that were decompressed.
    pub(crate) decompressed: usize,
}

impl Loader<'_, '_> {
    /// A buffer of a slot.
    fn buffer(&mut self, slot: Slot, number: usize) -> Result<Stored, LoadError> {
        let (offset, length) = self.header.buffer(slot, number);
        let place = |number: i64| usize::try_from(number).ok();
        let body = self.message.len() - self.body;
        let range = place(offset).zip(place(length)).and_then(|(offset, length)| {
            let end = offset.checked_add(length)?;
            (end <= body).then(|| self.body + offset..self.body + end)
        });
        let Some(range) = range else {
            return Err(LoadError::Bad(format!(
                "expected a buffer in the {body} bytes of the body, found one of {length} bytes at \
                 {offset}"
            )));
        };
        let Some(codec) = self.header.codec.filter(|_| !range.is_empty()) else {
            return Ok(Stored::Message(range));
        };
        let message = &self.chunk[self.message.clone()];
        let Some(size) = message[range.clone()].first_chunk().copied().map(i64::from_le_bytes)
        else {
            let found = range.len();
            return Err(LoadError::Bad(format!(
                "expected the size of a compressed buffer, found {found} bytes"
            )));
        };
        let data = range.start + 8..range.end;
        if size == -1 {
            return Ok(Stored::Message(data));
        }
        if size == 0 {
            return Ok(Stored::Own(Vec::new()));
        }
        let start = self.message.start;
        let block = self.out.decompress(codec, start + data.start..start + data.end)?;
        self.decompressed += block.bytes.len();
        if !block.last {
            return Err(LoadError::NoRoom(format!(
                "its buffer of {size} bytes and those before it are more than one call may \
                 produce; raise limits.output, or write smaller batches"
            )));
        }
        if i64::try_from(block.bytes.len()) != Ok(size) {
            let found = block.bytes.len();
            return Err(LoadError::Bad(format!(
                "expected a buffer of {size} bytes, found {found}"
            )));
        }
        Ok(Stored::Own(block.bytes))
    }

    /// The validity of a node, and its length.
    pub(crate) fn validity(&mut self, slot: Slot) -> Result<Validity, LoadError> {
        let (length, nulls) = self.header.node(slot);
        let Ok(rows) = usize::try_from(length) else {
            return Err(LoadError::Bad(format!("expected a number of values, found {length}")));
        };
        if nulls == 0 {
            return Ok(Validity { rows, bits: None });
        }
        let bits = self.buffer(slot, 0)?;
        let found = bits.bytes(&self.chunk[self.message.clone()]).len();
        match found {
            // Without a number of nulls, there may be no bits.
            0 if nulls < 0 => Ok(Validity { rows, bits: None }),
            _ if found >= rows.div_ceil(8) => Ok(Validity { rows, bits: Some(bits) }),
            _ => Err(LoadError::Bad(format!(
                "expected {rows} bits that tell its nulls, found {found} bytes"
            ))),
        }
    }

    /// The buffer after the validity, which must have this number of elements.
    fn of_size(
        &mut self,
        slot: Slot,
        number: usize,
        count: usize,
        size: usize,
    ) -> Result<Stored, LoadError> {
        let buffer = self.buffer(slot, number)?;
        let found = buffer.bytes(&self.chunk[self.message.clone()]).len();
        if count.checked_mul(size).is_none_or(|wanted| wanted > found) {
            return Err(LoadError::Bad(format!(
                "expected {count} values of {size} bytes, found {found} bytes"
            )));
        }
        Ok(buffer)
    }

    /// The offsets of `rows` values, of which there are one more. None, if there are no values.
    fn offsets(&mut self, slot: Slot, rows: usize, is_wide: bool) -> Result<Stored, LoadError> {
        let count = if rows == 0 { 0 } else { rows.saturating_add(1) };
        self.of_size(slot, 1, count, width(is_wide))
    }

    /// The buffers of a list.
    pub(crate) fn list(&mut self, slot: Slot, form: ListForm) -> Result<StoredList, LoadError> {
        let validity = self.validity(slot)?;
        let rows = validity.rows;
        let (first, second) = match form {
            ListForm::Offsets { is_wide } => (self.offsets(slot, rows, is_wide)?, none()),
            ListForm::View { is_wide } => (
                self.of_size(slot, 1, rows, width(is_wide))?,
                self.of_size(slot, 2, rows, width(is_wide))?,
            ),
            ListForm::Fixed(_) => (none(), none()),
        };
        Ok(StoredList { form, validity, first, second })
    }

    /// The buffers of values.
    pub(crate) fn values(&mut self, leaf: &Leaf) -> Result<StoredValues, LoadError> {
        let slot = leaf.slot;
        if leaf.storage == Storage::None {
            let rows = usize::try_from(self.header.node(slot).0).unwrap_or(usize::MAX);
            let validity = Validity { rows, bits: None };
            let (first, second) = (none(), none());
            return Ok(StoredValues { validity, first, second, long: Vec::new() });
        }
        let validity = self.validity(slot)?;
        let rows = validity.rows;
        let (mut second, mut long) = (none(), Vec::new());
        let first = match leaf.storage {
            Storage::None => none(),
            Storage::Bits => self.of_size(slot, 1, rows.div_ceil(8), 1)?,
            Storage::Fixed(size) => self.of_size(slot, 1, rows, size)?,
            Storage::Offsets { is_wide } => {
                second = self.buffer(slot, 2)?;
                self.offsets(slot, rows, is_wide)?
            }
            Storage::Views => {
                for number in 0..self.header.long_buffers(slot) {
                    long.push(self.buffer(slot, 2 + number)?);
                }
                self.of_size(slot, 1, rows, VIEW)?
            }
        };
        Ok(StoredValues { validity, first, second, long })
    }
}

fn none() -> Stored {
    Stored::Message(0..0)
}

fn width(is_wide: bool) -> usize {
    if is_wide { 8 } else { 4 }
}

/// The number of values, and which of them are there; all, if there are no bits.
#[derive(Debug)]
pub(crate) struct Validity {
    pub(crate) rows: usize,
    bits: Option<Stored>,
}

impl Validity {
    pub(crate) fn bits<'a>(&'a self, message: &'a [u8]) -> Bits<'a> {
        Bits(self.bits.as_ref().map(|bits| bits.bytes(message)))
    }
}

#[derive(Debug)]
pub(crate) struct StoredList {
    form: ListForm,
    pub(crate) validity: Validity,
    first: Stored,
    second: Stored,
}

#[derive(Debug)]
pub(crate) struct StoredValues {
    pub(crate) validity: Validity,
    first: Stored,
    second: Stored,
    long: Vec<Stored>,
}

impl StoredList {
    pub(crate) fn open<'a>(&'a self, message: &'a [u8]) -> Lists<'a> {
        Lists {
            form: self.form,
            valid: self.validity.bits(message),
            first: self.first.bytes(message),
            second: self.second.bytes(message),
        }
    }
}

impl StoredValues {
    pub(crate) fn open<'a>(&'a self, storage: Storage, message: &'a [u8]) -> Values<'a> {
        Values {
            storage,
            rows: self.validity.rows,
            valid: self.validity.bits(message),
            first: self.first.bytes(message),
            second: self.second.bytes(message),
            long: self.long.iter().map(|one| one.bytes(message)).collect(),
        }
    }
}

/// Which values are there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bits<'a>(Option<&'a [u8]>);

impl<'a> Bits<'a> {
    #[inline]
    pub(crate) fn is_null(self, row: usize) -> bool {
        self.0.is_some_and(|bits| bits.get(row / 8).is_none_or(|byte| byte >> (row % 8) & 1 == 0))
    }

    /// The bits of these rows, of which the first one has the lowest bit of a byte. `None` if all
    /// of them are there.
    pub(crate) fn of(self, rows: Range<usize>) -> Option<&'a [u8]> {
        let bits = self.0?.get(rows.start / 8..rows.end.div_ceil(8))?;
        let (last, whole) = bits.split_last()?;
        let unused = (8 - rows.end % 8) % 8;
        let is_full = *last | !(u8::MAX >> unused) == u8::MAX;
        let are_all_there = is_full && whole.iter().all(|bits| *bits == u8::MAX);
        (!are_all_there).then_some(bits)
    }

    /// Whether one of these is null.
    pub(crate) fn has_null(self, mut rows: Range<usize>) -> bool {
        self.0.is_some() && rows.any(|row| self.is_null(row))
    }
}

/// The lists of a column.
#[derive(Debug)]
pub(crate) struct Lists<'a> {
    form: ListForm,
    pub(crate) valid: Bits<'a>,
    first: &'a [u8],
    second: &'a [u8],
}

impl Lists<'_> {
    /// The elements of these lists, which lie one after the other, of which there are `most`. More
    /// than one list has a fixed size.
    pub(crate) fn elements(&self, rows: Range<usize>, most: usize) -> Result<Range<usize>, String> {
        let range = match self.form {
            ListForm::Offsets { is_wide } => {
                number(self.first, rows.start, is_wide).zip(number(self.first, rows.end, is_wide))
            }
            ListForm::View { is_wide } => number(self.first, rows.start, is_wide)
                .zip(number(self.second, rows.start, is_wide))
                .and_then(|(start, size)| Some((start, start.checked_add(size)?))),
            ListForm::Fixed(size) => {
                let place =
                    |row: usize| row.checked_mul(size).and_then(|at| i64::try_from(at).ok());
                place(rows.start).zip(place(rows.end))
            }
        };
        within(range, most)
            .map_err(|found| format!("expected a list within {most} elements, found one {found}"))
    }
}

/// The values of a column.
#[derive(Debug)]
pub(crate) struct Values<'a> {
    storage: Storage,
    pub(crate) rows: usize,
    pub(crate) valid: Bits<'a>,
    pub(crate) first: &'a [u8],
    pub(crate) second: &'a [u8],
    long: Vec<&'a [u8]>,
}

impl<'a> Values<'a> {
    /// Bytes of all of its buffers.
    pub(crate) fn byte_count(&self) -> usize {
        let long: usize = self.long.iter().map(|one| one.len()).sum();
        self.first.len() + self.second.len() + long
    }

    /// The bytes of a value. The row is below the number of rows.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Result<&'a [u8], String> {
        match self.storage {
            Storage::None => Ok(&[]),
            Storage::Bits => {
                let bit = self.first.get(row / 8).is_some_and(|byte| byte >> (row % 8) & 1 == 1);
                Ok(if bit { &[1] } else { &[0] })
            }
            Storage::Fixed(size) => {
                Ok(self.first.get(row * size..(row + 1) * size).unwrap_or_default())
            }
            Storage::Offsets { is_wide } => {
                let (start, end) =
                    (number(self.first, row, is_wide), number(self.first, row + 1, is_wide));
                let range = within(start.zip(end), self.second.len());
                range.map(|range| &self.second[range]).map_err(|found| {
                    let most = self.second.len();
                    format!("expected a value within {most} bytes, found one {found}")
                })
            }
            Storage::Views => self.view(row),
        }
    }

    fn view(&self, row: usize) -> Result<&'a [u8], String> {
        let view = self.first.get(row * VIEW..(row + 1) * VIEW).unwrap_or_default();
        let word = |at: usize| {
            let bytes = view.get(at..).and_then(<[u8]>::first_chunk);
            bytes.copied().map_or(-1, i32::from_le_bytes)
        };
        let (size, buffer, offset) = (word(0), word(8), word(12));
        let Ok(length) = usize::try_from(size) else {
            return Err(format!("expected the view of a value, found one of {size} bytes"));
        };
        if length <= SHORT {
            return Ok(&view[4..4 + length]);
        }
        let long = usize::try_from(buffer).ok().and_then(|buffer| self.long.get(buffer));
        let start = usize::try_from(offset).ok();
        let value = long.zip(start).and_then(|(long, start)| long.get(start..)?.get(..length));
        // The view has the first bytes, too.
        value.filter(|value| value.starts_with(&view[4..8])).ok_or_else(|| {
            format!(
                "expected the view of a value in {} buffers, found one of {size} bytes at {offset} \
                 of buffer {buffer}, or with other first bytes",
                self.long.len()
            )
        })
    }
}

/// The number at this place of a buffer.
#[inline]
fn number(buffer: &[u8], at: usize, is_wide: bool) -> Option<i64> {
    let bytes = buffer.get(at * width(is_wide)..)?;
    match is_wide {
        true => bytes.first_chunk().copied().map(i64::from_le_bytes),
        false => bytes.first_chunk().copied().map(i32::from_le_bytes).map(i64::from),
    }
}

/// A range within `most`. The error says where it is.
#[inline]
fn within(range: Option<(i64, i64)>, most: usize) -> Result<Range<usize>, String> {
    let place = |at: i64| usize::try_from(at).ok();
    let found = range.and_then(|(start, end)| place(start).zip(place(end)));
    match found {
        Some((start, end)) if start <= end && end <= most => Ok(start..end),
        _ => Err(match range {
            Some((start, end)) => format!("from {start} to {end}"),
            None => "without a place".to_owned(),
        }),
    }
}
