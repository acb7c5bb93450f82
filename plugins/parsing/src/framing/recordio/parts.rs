//! The slow way through one record: part after part, checking all that a file can get wrong. Emits
//! nothing; the short way for records in one part stands in `mod.rs`.

use pipemill_plugin::DecodeError;

use super::Next;

/// The first four bytes of each part.
pub(super) const MAGIC: [u8; 4] = 0xced7_230a_u32.to_le_bytes();
/// Bytes of magic, cflag and length.
pub(super) const HEADER: usize = 8;

/// Length of a payload with its pad bytes, whose value does not matter.
pub(super) fn padded(length: usize) -> usize {
    (length + 3) & !3
}

/// Why the record at a place is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wrong {
    /// It has more bytes than are allowed.
    TooLarge {
        /// Its bytes; those of the parts so far, if it has several.
        size: u64,
        /// Whether it is in one part, so that the next record starts at `end` for sure.
        whole: bool,
        /// Where the part ends.
        end: u64,
    },
    /// It is damaged, or not RecordIO.
    Damaged(DecodeError),
}

impl Wrong {
    /// The error of a decoder whose records are these; `start` is where the bad one starts.
    #[cold]
    pub fn into_error(self, start: usize, max: u64) -> DecodeError {
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

impl From<DecodeError> for Wrong {
    fn from(error: DecodeError) -> Self {
        Self::Damaged(error)
    }
}

/// The rules by which parts make a record.
#[derive(Debug)]
pub(super) struct Parts {
    /// The dialect: whether the magic is put back between parts.
    pub(super) magic_between: bool,
}

/// The part at a place of the chunk.
struct Part {
    cflag: u8,
    length: usize,
}

impl Parts {
    /// Looks at the record that starts at `start`, up to its end, the end of the chunk or the first
    /// thing that is wrong.
    pub(super) fn look(&self, chunk: &[u8], start: usize, max: u64) -> Result<Next, Wrong> {
        let record = &chunk[start..];
        let mut at = 0;
        let mut size = 0;
        loop {
            let Some(part) = header(record, at).map_err(|found| wrong_magic(start, at, found))?
            else {
                return Ok(Next::Cut { need: at + HEADER });
            };
            check_order(&part, start, at)?;
            let end = at + HEADER + padded(part.length);
            let last = matches!(part.cflag, 0 | 3);
            size += part.length as u64;
            if !last && self.magic_between {
                self.check_words(&part, start, at, end)?;
                size += MAGIC.len() as u64;
            }
            if size > max {
                let (whole, end) = (part.cflag == 0, (start + end) as u64);
                return Err(Wrong::TooLarge { size, whole, end });
            }
            if end > record.len() {
                // Behind a part that is not the last comes one more header at least.
                return Ok(Next::Cut { need: if last { end } else { end + HEADER } });
            }
            if last {
                return Ok(Next::Parts { size, end: start + end });
            }
            at = end;
        }
    }

    /// Appends the payload of a record that [`look`](Self::look) found whole.
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

    /// The writer that drops the magic only splits where it stands at a multiple of 4.
    fn check_words(
        &self,
        part: &Part,
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

/// The part at `at`, if its header is in view; the bytes that stand where the magic should, if they
/// are others.
fn header(record: &[u8], at: usize) -> Result<Option<Part>, [u8; 4]> {
    let Some(rest) = record.get(at..) else { return Ok(None) };
    match rest.first_chunk() {
        Some(&MAGIC) => {}
        Some(found) => return Err(*found),
        None => return Ok(None),
    }
    Ok(rest[MAGIC.len()..].first_chunk().map(|word| {
        let word = u32::from_le_bytes(*word);
        Part { cflag: (word >> 29) as u8, length: (word & 0x1fff_ffff) as usize }
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

/// Refuses a part that can't stand at `at` of its record.
fn check_order(part: &Part, start: usize, at: usize) -> Result<(), DecodeError> {
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
