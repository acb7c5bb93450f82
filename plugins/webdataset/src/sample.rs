//! Gathers the members of a sample (consecutive members with one key), checks them and emits the
//! record.

use std::ops::Range;

use pipemill_plugin::Records;

use crate::key::{is_same, lower};
use crate::wanted::{Wanted, WantedMember};

/// The members of a sample so far. One value serves all samples, so that its memory is reused.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    /// Where the first header of the sample starts in the chunk.
    pub(crate) start: usize,
    pub(crate) key: Vec<u8>,
    /// The range of the key in the chunk, if it is in one piece.
    key_at: Option<Range<usize>>,
    members: Vec<SampleMember>,
}

/// The ranges of a member in the chunk.
#[derive(Debug)]
struct SampleMember {
    extension: Range<usize>,
    data: Range<usize>,
}

/// Why a sample can't be a record.
#[derive(Debug)]
pub(crate) enum SampleError<'a> {
    /// Two members have this extension, here in lower case.
    Twice(Vec<u8>),
    /// The sample has no member for this field.
    Missing(&'a WantedMember),
    /// The key is not UTF-8.
    Key,
    /// The member of this field is not UTF-8 at this offset.
    NotUtf8(&'a WantedMember, usize),
}

impl Sample {
    /// Starts a sample. `key` is the key of its first member.
    pub(crate) fn open(&mut self, start: usize, key: &[u8], key_at: Option<Range<usize>>) {
        self.start = start;
        self.key.clear();
        self.key.extend_from_slice(key);
        self.key_at = key_at;
        self.members.clear();
    }

    pub(crate) fn add(&mut self, extension: Range<usize>, data: Range<usize>) {
        self.members.push(SampleMember { extension, data });
    }

    /// The extensions of the members, as they are written.
    pub(crate) fn extensions<'a>(&self, chunk: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.members.iter().map(|member| &chunk[member.extension.clone()])
    }

    /// Emits the sample. After an error, some of its fields may have been emitted, but not its end.
    pub(crate) fn emit<'a>(
        &self,
        chunk: &[u8],
        wanted: &'a Wanted,
        out: &mut Records,
    ) -> Result<(), SampleError<'a>> {
        if let Some(twice) = self.twice(chunk) {
            return Err(SampleError::Twice(twice));
        }
        if wanted.key {
            if str::from_utf8(&self.key).is_err() {
                return Err(SampleError::Key);
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
                        return Err(SampleError::NotUtf8(field, error.valid_up_to()));
                    }
                    out.field(data);
                }
                None if field.optional => out.absent(),
                None => return Err(SampleError::Missing(field)),
            }
        }
        out.end_record(self.start);
        Ok(())
    }

    /// The data of the member for this field.
    fn find(&self, chunk: &[u8], field: &WantedMember) -> Option<Range<usize>> {
        field.extensions.iter().find_map(|wanted| {
            let same = |member: &&SampleMember| is_same(&chunk[member.extension.clone()], wanted);
            self.members.iter().find(same).map(|member| member.data.clone())
        })
    }

    /// An extension that two members have, wanted or not: nobody knows which member is meant.
    fn twice(&self, chunk: &[u8]) -> Option<Vec<u8>> {
        // Most samples have few members with ASCII extensions. Comparing all pairs is fastest then.
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
