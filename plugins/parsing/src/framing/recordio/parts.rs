//! The slow path: reads one record part by part, with every check that the format allows. The fast
//! path for records in one part is in `mod.rs`.

use pipemill_plugin::DecodeError;

use super::NextRecord;

/// The first four bytes of each part.
pub(super) const MAGIC: [u8; 4] = 0xced7_230a_u32.to_le_bytes();
/// Size of a part's header in bytes: magic, then cflag and length.
pub(super) const HEADER: usize = 8;

/// Length of a payload with its padding. The value of the padding does not matter.
pub(super) fn padded(length: usize) -> usize {
    (length + 3) & !3
}

/// The reason why a record can't be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordError {
    /// The record is larger than allowed.
    TooLarge {
        /// Size of the record in bytes; if it has several parts, the size of the parts up to the
        /// one that exceeds the limit.
        size: u64,
        /// Whether the record has one part: if so, the next record starts at `end`.
        whole: bool,
        /// The end of the last part that was read, counted from the start of the chunk.
        end: u64,
    },
    /// The record is damaged, or the input is not RecordIO.
    Damaged(DecodeError),
}

impl RecordError {
    /// The error of a decoder whose records are RecordIO records. The record starts at `start` of
    /// the chunk; at most `max` bytes are allowed.
    #[cold]
    pub fn into_decode_error(self, start: usize, max: u64) -> DecodeError {
        let (size, whole, end) = match self {
            Self::TooLarge { size, whole, end } => (size, whole, end),
            Self::Damaged(error) => return error,
        };
        let more = if whole { "" } else { " or more, in parts," };
        let message = format!(
            "record of {size} bytes{more} is larger than max_record ({max} bytes); raise max_record \
             if records may be that large"
        );
        if whole {
            DecodeError::skippable(start, message, end)
        } else {
            DecodeError::searchable(start, message, end)
        }
    }
}

impl From<DecodeError> for RecordError {
    fn from(error: DecodeError) -> Self {
        Self::Damaged(error)
    }
}

/// Reads and joins records in several parts.
#[derive(Debug)]
pub(super) struct PartReader {
    /// Whether the magic is put back between parts: `multipart = "dmlc"`.
    pub(super) magic_between: bool,
}

/// The header of one part.
struct PartHeader {
    /// 0: the only part of a record; 1: its first part; 2: a part in the middle; 3: its last part.
    cflag: u8,
    /// Size of the payload in bytes, without padding.
    length: usize,
}

impl PartReader {
    /// Reads the headers of the record at `start`, up to the end of the record, the end of the
    /// chunk or the first error.
    pub(super) fn read_record(
        &self,
        chunk: &[u8],
        start: usize,
        max: u64,
    ) -> Result<NextRecord, RecordError> {
        let record = &chunk[start..];
        let mut at = 0;
        let mut size = 0;
        loop {
            let Some(part) = header(record, at).map_err(|found| wrong_magic(start, at, found))?
            else {
                return Ok(NextRecord::Cut { need: at + HEADER });
            };
            check_order(&part, start, at)?;
            let end = at + HEADER + padded(part.length);
            let last = matches!(part.cflag, 0 | 3);
            size += part.length as u64;
            if !last && self.magic_between {
                self.check_alignment(&part, start, at, end)?;
                size += MAGIC.len() as u64;
            }
            if size > max {
                let (whole, end) = (part.cflag == 0, (start + end) as u64);
                return Err(RecordError::TooLarge { size, whole, end });
            }
            if end > record.len() {
                // At least one more header follows a part that is not the last.
                return Ok(NextRecord::Cut { need: if last { end } else { end + HEADER } });
            }
            if last {
                return Ok(NextRecord::Parts { size, end: start + end });
            }
            at = end;
        }
    }

    /// Appends the payload of a record that [`read_record`](Self::read_record) found complete.
    pub(super) fn join(&self, record: &[u8], payload: &mut Vec<u8>) {
        let mut at = 0;
        while let Ok(Some(part)) = header(record, at) {
            if at > 0 && self.magic_between {
                payload.extend_from_slice(&MAGIC);
            }
            let from = at + HEADER;
            payload.extend_from_slice(&record[from..from + part.length]);
            at = from + padded(part.length);
        }
    }

    /// Refuses a part that is followed by another one if its length is not a multiple of 4. dmlc's
    /// writer splits only at a magic that is at a multiple of 4 bytes.
    fn check_alignment(
        &self,
        part: &PartHeader,
        start: usize,
        at: usize,
        end: usize,
    ) -> Result<(), DecodeError> {
        if part.length.is_multiple_of(4) {
            return Ok(());
        }
        let message = format!(
            "part at +{at}: expected a length that is a multiple of 4, as in all but the last part \
             of a record, found {}; this file's parts are joined plainly: set the option \
             multipart = \"concat\"",
            part.length
        );
        Err(DecodeError::searchable(start, message, (start + end) as u64))
    }
}

/// The header of the part at `at`; `None` if the chunk ends before the header does. The error is
/// the bytes that were found instead of the magic.
fn header(record: &[u8], at: usize) -> Result<Option<PartHeader>, [u8; 4]> {
    let Some(rest) = record.get(at..) else { return Ok(None) };
    match rest.first_chunk() {
        Some(&MAGIC) => {}
        Some(found) => return Err(*found),
        None => return Ok(None),
    }
    Ok(rest[MAGIC.len()..].first_chunk().map(|word| {
        let word = u32::from_le_bytes(*word);
        PartHeader { cflag: (word >> 29) as u8, length: (word & 0x1fff_ffff) as usize }
    }))
}

fn wrong_magic(start: usize, at: usize, found: [u8; 4]) -> DecodeError {
    let [a, b, c, d] = found;
    let message = format!(
        "expected the RecordIO magic 0a 23 d7 ce at +{at}, found {a:02x} {b:02x} {c:02x} {d:02x}; \
         this is not RecordIO, or it is damaged here or just before"
    );
    DecodeError::searchable(start, message, start as u64 + 4)
}

/// Refuses a part whose cflag is invalid at offset `at` of its record.
fn check_order(part: &PartHeader, start: usize, at: usize) -> Result<(), DecodeError> {
    let cflag = part.cflag;
    let open = at > 0;
    match (cflag, open) {
        (0 | 1, false) | (2 | 3, true) => Ok(()),
        (0 | 1, true) => {
            let message = format!(
                "expected the next part of the record (cflag 2 or 3) at +{at}, found the start of \
                 another (cflag {cflag}); the last part is missing"
            );
            Err(DecodeError::skippable(start, message, (start + at) as u64))
        }
        (2 | 3, false) => {
            let message = format!(
                "expected the start of a record (cflag 0 or 1) at +{at}, found a later part of one \
                 (cflag {cflag}); its first part is missing"
            );
            Err(DecodeError::searchable(start, message, start as u64 + 4))
        }
        _ => {
            let message = format!(
                "expected cflag 0 to 3 at +{at}, found {cflag}; the header is damaged, or this is \
                 not RecordIO"
            );
            Err(DecodeError::searchable(start, message, start as u64 + 4))
        }
    }
}
