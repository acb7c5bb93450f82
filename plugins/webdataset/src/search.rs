//! Searches for the next sample after an error, block by block.
//!
//! After damage it is not known which members are missing, nor to which sample they belonged. The
//! first member that is found may belong to a sample that has lost members, so that sample is
//! skipped. The search ends at the first member with another key.
//!
//! A block of zeros has no meaning for the search: it can be data of a member whose header is
//! damaged.

use pipemill_plugin::Resync;

use crate::header::BLOCK;
use crate::key;
use crate::member::{Member, NextMember, read_member};

/// The state of a search.
#[derive(Debug, Default)]
pub(crate) struct Search {
    /// The key of the sample that is skipped, once it is known.
    key: Option<Vec<u8>>,
    /// Number of remaining bytes of a skipped member. They are complete blocks.
    to_skip: u64,
    /// Buffer for paths in two pieces.
    joined: Vec<u8>,
}

impl Search {
    /// Starts a search after an error. `key` is the key of the sample to skip, if it is known;
    /// `to_skip` is the number of remaining bytes of the current member.
    pub(crate) fn begin(&mut self, key: Option<&[u8]>, to_skip: u64) {
        self.key = key.map(<[u8]>::to_vec);
        self.to_skip = to_skip;
    }

    pub(crate) fn resync(&mut self, chunk: &[u8], end: bool) -> Resync {
        let mut at = 0;
        loop {
            let blocks = (chunk.len() - at) / BLOCK * BLOCK;
            let step = self.to_skip.min(blocks as u64);
            self.to_skip -= step;
            // The value fits: the chunk is not shorter.
            at += step as usize;
            if self.to_skip > 0 {
                return Resync { consumed: at, found: false };
            }
            match read_member(chunk, at) {
                Ok(NextMember::Member(member)) => {
                    if self.is_next(chunk, &member) {
                        return Resync { consumed: at, found: true };
                    }
                    self.to_skip = member.size_from(at);
                }
                Ok(NextMember::Zeros) => at += BLOCK,
                Ok(NextMember::Cut { .. }) => {
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

    /// Whether this member starts a sample that has lost no member.
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
