//! One group after the other: its records, and what becomes of the group if one of them is wrong.

use pipemill_parsing::framing::recordio::{Framing, Next, Wrong};
use pipemill_plugin::{DecodeError, Records, Resume};

/// The groups of a stream.
#[derive(Debug)]
pub(crate) struct Groups {
    pub(crate) attributes: Vec<String>,
    pub(crate) framing: Framing,
    /// Largest group, in bytes.
    pub(crate) max_record: u64,
    /// Records that come next and belong to a group that was refused.
    pub(crate) pass: usize,
}

/// What starts at a place of the chunk.
pub(crate) enum Group {
    /// A group that was dealt with; the next one starts at `end`.
    Whole { end: usize },
    /// A group of which so many records are whole, or the rest of one that was refused (`None`).
    Cut { records: Option<usize>, need: usize },
}

/// A record of a group that is wrong, and those before it in the group.
struct Bad {
    /// Where the group starts in the chunk.
    group: usize,
    /// Where the record starts in the chunk.
    record: usize,
    /// Number of the record in the group.
    number: usize,
    /// Bytes of the records before it.
    used: u64,
}

impl Groups {
    /// Emits the group that starts at `start`, or passes over a record of one that was refused.
    #[inline]
    pub(crate) fn next(
        &mut self,
        chunk: &[u8],
        start: usize,
        out: &mut Records,
    ) -> Result<Group, DecodeError> {
        if self.pass > 0 {
            return self.pass_one(chunk, start);
        }
        let (mut at, mut room) = (start, self.max_record);
        for number in 0..self.attributes.len() {
            match self.framing.next_within(chunk, at, room) {
                Ok(Next::Plain { payload, end }) => {
                    room -= payload.len() as u64;
                    out.field(payload);
                    at = end;
                }
                Ok(Next::Parts { size, end }) => {
                    room -= size;
                    out.field_made(|payload| self.framing.join(&chunk[at..end], payload));
                    at = end;
                }
                Ok(Next::Cut { need }) => {
                    out.abandon_record();
                    return Ok(Group::Cut { records: Some(number), need: at - start + need });
                }
                Err(wrong) => {
                    out.abandon_record();
                    let used = self.max_record - room;
                    return Err(self.refuse(wrong, Bad { group: start, record: at, number, used }));
                }
            }
        }
        out.end_record(start);
        Ok(Group::Whole { end: at })
    }

    #[cold]
    fn pass_one(&mut self, chunk: &[u8], at: usize) -> Result<Group, DecodeError> {
        match self.framing.next_within(chunk, at, self.max_record) {
            Ok(Next::Plain { end, .. } | Next::Parts { end, .. }) => {
                self.pass -= 1;
                Ok(Group::Whole { end })
            }
            Ok(Next::Cut { need }) => Ok(Group::Cut { records: None, need }),
            Err(wrong) => {
                let number = self.attributes.len() - self.pass;
                Err(self.refuse(wrong, Bad { group: at, record: at, number, used: 0 }))
            }
        }
    }

    /// The error of a group with a bad record.
    #[cold]
    fn refuse(&mut self, wrong: Wrong, bad: Bad) -> DecodeError {
        let attribute = &self.attributes[bad.number];
        match wrong {
            Wrong::TooLarge { size, whole, end } => {
                let (size, max) = (bad.used + size, self.max_record);
                let message = format!(
                    "group of {size} bytes or more, counted up to `{attribute}`, is larger than \
                     max_record ({max} bytes); raise max_record if groups may be that large"
                );
                if !whole {
                    return DecodeError::fatal(bad.group, message);
                }
                // The length is sound, so that the count of records still holds.
                self.pass = self.attributes.len() - 1 - bad.number;
                DecodeError::skippable(bad.group, message, end)
            }
            Wrong::Damaged(error) => {
                let message = format!(
                    "record of `{attribute}`, {} bytes behind the start of its group: {}; nothing \
                     tells where the next group starts",
                    bad.record - bad.group,
                    error.message
                );
                DecodeError::fatal(bad.group, message)
            }
        }
    }

    /// The error of a group of which the input has only so many records.
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
