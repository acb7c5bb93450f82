//! What is stored of a call of the decoder, except for the bytes of its records. Numbers are
//! little-endian. In the cache, all values of a call lie in its payload.

use std::collections::BTreeMap;
use std::sync::Arc;

use pipemill_decode::{DecodedRecords, IN_PAYLOAD};
use pipemill_types::{ABSENT, Column, Even, Field};

/// Whether decoding can begin again where a call has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mark {
    /// It can't.
    None,
    /// It can, after the object's first bytes, as many as this.
    Restart(u64),
    /// It can, with what the decoder has saved.
    Saved(Vec<u8>),
}

/// A call, without its records.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CallEnd {
    /// Bytes of the object that it has used.
    pub(super) consumed: u64,
    pub(super) mark: Mark,
    /// The fields of the decoder, with the first call after it has declared them.
    pub(super) fields: Option<Arc<[Field]>>,
    /// Facts about the object, with the first call after they have changed.
    pub(super) metadata: Option<BTreeMap<String, String>>,
}

impl Default for CallEnd {
    fn default() -> Self {
        Self { consumed: 0, mark: Mark::None, fields: None, metadata: None }
    }
}

/// Where the values of a call lie that are moved to its payload.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moved {
    /// The part of the chunk that is moved begins here.
    pub(super) from: u32,
    /// It lies here in the payload.
    pub(super) to: u32,
}

impl Moved {
    fn offset(self, offset: u32) -> u32 {
        match offset {
            ABSENT => ABSENT,
            offset if offset & IN_PAYLOAD != 0 => offset,
            offset => (offset - self.from + self.to) | IN_PAYLOAD,
        }
    }
}

/// Writes the records of a call, with the first columns, as many as the decoder has fields.
pub(super) fn write_records(
    to: &mut Vec<u8>,
    decoded: &DecodedRecords,
    fields: usize,
    moved: Moved,
) {
    let number = |to: &mut Vec<u8>, number: usize| to.extend((number as u64).to_le_bytes());
    number(to, decoded.records);
    to.push(u8::from(decoded.absent));
    number(to, decoded.starts.len());
    to.extend(decoded.starts.iter().flat_map(|start| start.to_le_bytes()));
    for column in decoded.columns.iter().take(fields) {
        match column.even() {
            Some(Even { first, size, .. }) => {
                to.push(1);
                to.extend(moved.offset(first).to_le_bytes());
                to.extend(size.to_le_bytes());
            }
            None => {
                to.push(0);
                let offsets = column.offsets().iter().map(|offset| moved.offset(*offset));
                to.extend(offsets.flat_map(u32::to_le_bytes));
                to.extend(column.lengths().iter().flat_map(|length| length.to_le_bytes()));
            }
        }
    }
}

/// Writes what a call has ended with.
pub(super) fn write_end(to: &mut Vec<u8>, end: &CallEnd) {
    let bytes = |to: &mut Vec<u8>, bytes: &[u8]| {
        to.extend((bytes.len() as u64).to_le_bytes());
        to.extend(bytes);
    };
    to.extend(end.consumed.to_le_bytes());
    match &end.mark {
        Mark::None => to.push(0),
        Mark::Restart(header) => {
            to.push(1);
            to.extend(header.to_le_bytes());
        }
        Mark::Saved(saved) => {
            to.push(2);
            bytes(to, saved);
        }
    }
    // Texts and numbers are always JSON.
    let fields = end.fields.as_ref().map(|fields| serde_json::to_vec(&**fields));
    let metadata = end.metadata.as_ref().map(serde_json::to_vec);
    for json in [fields, metadata] {
        bytes(to, &json.and_then(Result::ok).unwrap_or_default());
    }
}

/// Reads what was written, the end of a call before its records. Each function returns `None` if it
/// was something else.
pub(super) struct IndexReader<'a>(pub(super) &'a [u8]);

impl IndexReader<'_> {
    fn take(&mut self, count: usize) -> Option<&[u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn number(&mut self) -> Option<u64> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*bytes))
    }

    fn count(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }

    fn bytes(&mut self) -> Option<&[u8]> {
        let count = self.count()?;
        self.take(count)
    }

    fn list(&mut self, count: usize) -> Option<Vec<u32>> {
        let (numbers, _) = self.take(count.checked_mul(4)?)?.as_chunks();
        Some(numbers.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect())
    }

    /// Reads the records of a call, whose payload is there already, of a decoder with this number
    /// of fields.
    pub(super) fn records(&mut self, into: &mut DecodedRecords, fields: usize) -> Option<()> {
        let records = self.count()?;
        into.records = records;
        into.absent = self.byte()? != 0;
        let starts = self.count()?;
        into.starts = self.list(starts)?;
        if starts != 0 && starts != records {
            return None;
        }
        let columns = into.columns.get_mut(..fields)?;
        for column in columns.iter_mut() {
            *column = match self.byte()? {
                1 => {
                    let place = self.list(2)?;
                    let records = u32::try_from(records).ok()?;
                    Column::from(Even { first: place[0], size: place[1], records })
                }
                0 => Column::of_lists(self.list(records)?, self.list(records)?),
                _ => return None,
            };
        }
        let payload = into.payload.len() as u64;
        let is_inside = columns.iter().all(|column| is_inside(column, payload));
        (into.has_payload, into.all_in_payload) = (records > 0, true);
        (is_inside && (fields > 0 || records == 0)).then_some(())
    }

    /// Reads what the call has ended with.
    pub(super) fn end(&mut self) -> Option<CallEnd> {
        let consumed = self.number()?;
        let mark = match self.byte()? {
            0 => Mark::None,
            1 => Mark::Restart(self.number()?),
            2 => Mark::Saved(self.bytes()?.to_vec()),
            _ => return None,
        };
        let fields = match self.bytes()? {
            [] => None,
            json => Some(serde_json::from_slice::<Vec<Field>>(json).ok()?.into()),
        };
        let metadata = match self.bytes()? {
            [] => None,
            json => Some(serde_json::from_slice(json).ok()?),
        };
        Some(CallEnd { consumed, mark, fields, metadata })
    }
}

/// Whether all values of a column lie in a payload of this many bytes, or are absent.
fn is_inside(column: &Column, payload: u64) -> bool {
    let is_inside = |offset: u32, bytes: u64| {
        offset & IN_PAYLOAD != 0 && u64::from(offset & !IN_PAYLOAD) + bytes <= payload
    };
    match column.even() {
        Some(even) => even.records == 0 || is_inside(even.first, even.bytes()),
        None => {
            let mut pairs = column.offsets().iter().zip(column.lengths());
            pairs.all(|(offset, length)| {
                (*offset, *length) == (ABSENT, 0) || is_inside(*offset, u64::from(*length))
            })
        }
    }
}
