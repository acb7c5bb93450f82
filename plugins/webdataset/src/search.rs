//! The search for the next sample behind a bad place. Stays in blocks.
//!
//! Behind damage nobody knows which member is missing, nor whose it was. So the first member that is
//! found is not the start of a sample to emit: its sample may have begun before. What is looked for is
//! the first member of the sample after that.
//!
//! A block of zeros says nothing here: it can stand in the data of a member whose header is damaged.

use pipemill_plugin::Resync;

use crate::header::BLOCK;
use crate::key;
use crate::member::{Look, Member, look};

/// How far a search has come.
#[derive(Debug, Default)]
pub(crate) struct Search {
    /// The key of the members passed over, if one was found.
    key: Option<Vec<u8>>,
    /// Bytes of a member still to pass over.
    pass: u64,
    joined: Vec<u8>,
}

impl Search {
    /// Begins behind an error: with the key of the members to pass over, if that is known, and inside of
    /// a member of which so many bytes are still to come.
    pub(crate) fn begin(&mut self, key: Option<&[u8]>, pass: u64) {
        self.key = key.map(<[u8]>::to_vec);
        self.pass = pass;
    }

    pub(crate) fn resync(&mut self, chunk: &[u8], end: bool) -> Resync {
        let mut at = 0;
        loop {
            let blocks = (chunk.len() - at) / BLOCK * BLOCK;
            let step = self.pass.min(blocks as u64);
            self.pass -= step;
            // Not more than the chunk, so it fits.
            at += step as usize;
            if self.pass > 0 {
                return Resync { consumed: at, found: false };
            }
            match look(chunk, at) {
                Ok(Look::Member(member)) => {
                    if self.is_next(chunk, &member) {
                        return Resync { consumed: at, found: true };
                    }
                    self.pass = member.size_from(at);
                }
                Ok(Look::Zeros) => at += BLOCK,
                Ok(Look::Cut { .. }) => {
                    let consumed = if end { chunk.len() } else { at };
                    return Resync { consumed, found: false };
                }
                Err(_) => {
                    self.key = None;
                    at += BLOCK;
                }
            }
        }
    }

    /// Whether a sample starts with this member of which no member was missed.
    fn is_next(&mut self, chunk: &[u8], member: &Member) -> bool {
        let Some(path) = member.path(chunk, &mut self.joined) else { return false };
        let Some(dot) = key::dot(path) else { return false };
        match &self.key {
            Some(key) => key != &path[..dot],
            None => {
                self.key = Some(path[..dot].to_vec());
                false
            }
        }
    }
}
