//! Decodes groups in sequence, and drops a group that has a bad record.

use pipemill_parsing::framing::recordio::{Framing, NextRecord, RecordError};
use pipemill_plugin::{DecodeError, Records, Resume};

/// The groups of a stream.
#[derive(Debug)]
pub(crate) struct Groups {
    pub(crate) attributes: Vec<String>,
    pub(crate) framing: Framing,
    /// Largest group in bytes: the sum of its payloads.
    pub(crate) max_record: u64,
    /// Number of the next records that belong to a dropped group.
    pub(crate) to_skip: usize,
}

/// The result of [`Groups::next`].
pub(crate) enum Group {
    /// A group was emitted, or a record of a dropped group was skipped. Decoding continues at
    /// `end`.
    Whole { end: usize },
    /// The chunk ends inside the group, of which `records` records are complete. `None`: inside a
    /// record of a dropped group. `need` counts from the start of the group or of that record.
    Cut { records: Option<usize>, need: usize },
}

/// A bad record of a group.
struct BadRecord {
    /// Start of the group in the chunk.
    group: usize,
    /// Start of the record in the chunk.
    record: usize,
    /// Number of the record in its group, from 0.
    number: usize,
    /// Total size of the payloads before it in the group, in bytes.
    used: u64,
}

impl Groups {
    /// Emits the group that starts at `start`, or skips one record of a group that was dropped.
    #[inline]
    pub(crate) fn next(
        &mut self,
        chunk: &[u8],
        start: usize,
        out: &mut Records,
    ) -> Result<Group, DecodeError> {
        if self.to_skip > 0 {
            return self.skip_record(chunk, start);
        }
        let (mut at, mut room) = (start, self.max_record);
        for number in 0..self.attributes.len() {
            match self.framing.next_within(chunk, at, room) {
                Ok(NextRecord::Plain { payload, end }) => {
                    room -= payload.len() as u64;
                    out.field(payload);
                    at = end;
                }
                Ok(NextRecord::Parts { size, end }) => {
                    room -= size;
                    out.field_made(|payload| self.framing.join(&chunk[at..end], payload));
                    at = end;
                }
                Ok(NextRecord::Cut { need }) => {
                    out.abandon_record();
                    return Ok(Group::Cut { records: Some(number), need: at - start + need });
                }
                Err(error) => {
                    out.abandon_record();
                    let used = self.max_record - room;
                    let bad = BadRecord { group: start, record: at, number, used };
                    return Err(self.drop_group(error, bad));
                }
            }
        }
        out.end_record(start);
        Ok(Group::Whole { end: at })
    }

    #[cold]
    fn skip_record(&mut self, chunk: &[u8], at: usize) -> Result<Group, DecodeError> {
        match self.framing.next_within(chunk, at, self.max_record) {
            Ok(NextRecord::Plain { end, .. } | NextRecord::Parts { end, .. }) => {
                self.to_skip -= 1;
                Ok(Group::Whole { end })
            }
            Ok(NextRecord::Cut { need }) => Ok(Group::Cut { records: None, need }),
            Err(error) => {
                let number = self.attributes.len() - self.to_skip;
                let bad = BadRecord { group: at, record: at, number, used: 0 };
                Err(self.drop_group(error, bad))
            }
        }
    }

    /// The error of a group with a bad record. Its other records are skipped later.
    #[cold]
    fn drop_group(&mut self, error: RecordError, bad: BadRecord) -> DecodeError {
        let attribute = &self.attributes[bad.number];
        match error {
            RecordError::TooLarge { size, whole, end } => {
                let (size, max) = (bad.used + size, self.max_record);
                let message = format!(
                    "group of {size} bytes or more, counted up to `{attribute}`, is larger than \
                     max_record ({max} bytes); raise max_record if groups may be that large"
                );
                if !whole {
                    return DecodeError::fatal(bad.group, message);
                }
                // The header was valid, so the count of records is still right.
                self.to_skip = self.attributes.len() - 1 - bad.number;
                DecodeError::skippable(bad.group, message, end)
            }
            RecordError::Damaged(error) => {
                let message = format!(
                    "record of `{attribute}`, {} bytes after the start of its group: {}; nothing \
                     tells where the next group starts",
                    bad.record - bad.group,
                    error.message
                );
                DecodeError::fatal(bad.group, message)
            }
        }
    }

    /// The error of an input that ends inside the group at `start`, which has only `records`
    /// complete records.
    #[cold]
    pub(crate) fn cut_short(&self, chunk: &[u8], start: usize, records: usize) -> DecodeError {
        let (all, next) = (self.attributes.join(", "), &self.attributes[records]);
        let message = format!(
            "expected a group of {} records ({all}), found the end of the input before the end of \
             `{next}`; the input is cut short, or `attributes` is not what the channel has",
            self.attributes.len()
        );
        let resume = Resume::At(chunk.len() as u64);
        DecodeError { offset: start, message, resume }
    }
}
