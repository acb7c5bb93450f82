//! A sample: the members that follow each other with one key, gathered, checked and emitted.

use std::ops::Range;

use pipemill_plugin::Records;

use crate::key::{is_same, lower};
use crate::wanted::{Wanted, WantedMember};

/// The members of a sample so far. Kept from sample to sample for its memory.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    /// Where it starts in the chunk, headers included.
    pub(crate) start: usize,
    pub(crate) key: Vec<u8>,
    /// Where the key stands in the chunk, if it does in one piece.
    key_at: Option<Range<usize>>,
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    extension: Range<usize>,
    data: Range<usize>,
}

/// Why a sample is no record.
#[derive(Debug)]
pub(crate) enum Unfit<'a> {
    /// This extension, in lower case, comes twice.
    Twice(Vec<u8>),
    /// It has no member for this field.
    Missing(&'a WantedMember),
    /// The key is not UTF-8.
    Key,
    /// The member of this field is not UTF-8, from this byte on.
    Text(&'a WantedMember, usize),
}

impl Sample {
    /// Starts with the key of its first member.
    pub(crate) fn open(&mut self, start: usize, key: &[u8], key_at: Option<Range<usize>>) {
        self.start = start;
        self.key.clear();
        self.key.extend_from_slice(key);
        self.key_at = key_at;
        self.members.clear();
    }

    pub(crate) fn add(&mut self, extension: Range<usize>, data: Range<usize>) {
        self.members.push(Member { extension, data });
    }

    /// The extensions that it has, as they stand.
    pub(crate) fn extensions<'a>(&self, chunk: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.members.iter().map(|member| &chunk[member.extension.clone()])
    }

    /// Emits the sample. On an error, fields of it may have been emitted, but not its end.
    pub(crate) fn emit<'a>(
        &self,
        chunk: &[u8],
        wanted: &'a Wanted,
        out: &mut Records,
    ) -> Result<(), Unfit<'a>> {
        if let Some(twice) = self.twice(chunk) {
            return Err(Unfit::Twice(twice));
        }
        if wanted.key {
            if str::from_utf8(&self.key).is_err() {
                return Err(Unfit::Key);
            }
            match &self.key_at {
                Some(range) => out.field(range.clone()),
                None => out.field_bytes(&self.key),
            }
        }
        for field in &wanted.members {
            match self.find(chunk, field) {
                Some(data) => {
                    if field.utf8
                        && let Err(error) = str::from_utf8(&chunk[data.clone()])
                    {
                        return Err(Unfit::Text(field, error.valid_up_to()));
                    }
                    out.field(data);
                }
                None if field.optional => out.absent(),
                None => return Err(Unfit::Missing(field)),
            }
        }
        out.end_record(self.start);
        Ok(())
    }

    fn find(&self, chunk: &[u8], field: &WantedMember) -> Option<Range<usize>> {
        field.extensions.iter().find_map(|wanted| {
            let same = |member: &&Member| is_same(&chunk[member.extension.clone()], wanted);
            self.members.iter().find(same).map(|member| member.data.clone())
        })
    }

    /// An extension that it has twice, wanted or not: then nobody knows which of them is meant.
    fn twice(&self, chunk: &[u8]) -> Option<Vec<u8>> {
        // Those of most samples are few, and ASCII.
        let is_first = |(index, one): (usize, &[u8])| {
            one.is_ascii()
                && !self.extensions(chunk).take(index).any(|b| b.eq_ignore_ascii_case(one))
        };
        if self.members.len() <= 16 && self.extensions(chunk).enumerate().all(is_first) {
            return None;
        }
        let mut all: Vec<_> = self.extensions(chunk).map(lower).collect();
        all.sort_unstable();
        all.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0].clone())
    }
}
