//! WebDataset: tar archives in which the files that follow each other with one key (the path up to the
//! first dot of the file name) make up a sample. Fields are the members that the option `fields` names
//! by their extensions, and the key; all are spans of the input.
//!
//! Tar as POSIX, GNU and the old ones have it, with long names and large sizes. The rules of keys are
//! webdataset's own: see `key`. Directories, links and other things that are no files are passed over,
//! and so are files without an extension and those that webdataset takes for meta data.
//!
//! **Places.** Headers stand at multiples of 512 bytes. What is consumed, where an error says to go on,
//! and what a search passes over are always whole blocks, so a chunk starts with a block, too, and
//! nothing has to be kept to know where blocks start.
//!
//! **What is looked at again.** A sample ends where another key or the end mark comes, so all of it has
//! to be in the chunk, and the next header, too. Until then it is shown again and again; each time, its
//! headers are read again, and nothing else. `need` is exact, so that happens once a member at most.

mod errors;
mod header;
mod key;
mod member;
mod sample;
mod search;
mod wanted;

use std::ops::Range;

use header::BLOCK;
use member::{Look, Member, Wrong, look};
use pipemill_plugin::{
    DecodeError, Decoder, Field, OptionSpec, Options, Progress, Records, Resync, StreamInfo,
};
use sample::Sample;
use search::Search;
use wanted::Wanted;

/// The `webdataset` decoder.
#[derive(Debug)]
pub struct WebDataset {
    wanted: Wanted,
    max_record: u64,
    /// Bytes, whole blocks, of a member outside of samples that are still to pass over.
    pass: u64,
    /// Whether the mark of an archive's end was the last thing.
    at_end: bool,
    search: Search,
    /// Kept from call to call for their memory only.
    sample: Sample,
    joined: Vec<u8>,
}

pipemill_plugin::export!(WebDataset);

impl Decoder for WebDataset {
    fn options() -> Vec<OptionSpec> {
        vec![
            OptionSpec::string(
                "fields",
                None,
                "the members of a sample to emit, by their extensions: \"jpg;png,cls:utf8,json?\"; \
                 needed",
            ),
            OptionSpec::bool("key", true, "emit the sample's key as the field `__key__`"),
        ]
    }

    fn open(options: &Options, info: &StreamInfo) -> Result<Self, String> {
        Ok(Self {
            wanted: Wanted::new(options)?,
            max_record: info.max_record,
            pass: 0,
            at_end: false,
            search: Search::default(),
            sample: Sample::default(),
            joined: Vec::new(),
        })
    }

    fn schema(&self) -> Option<Vec<Field>> {
        Some(self.wanted.schema())
    }

    fn decode(
        &mut self,
        chunk: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        let mut at = 0;
        loop {
            let next = match self.pass_over(chunk, at) {
                Ok(passed) => self.sample(chunk, passed, end, out)?,
                Err(progress) => return Ok(progress),
            };
            match next {
                Next::At(next) => at = next,
                Next::Stands(progress) => return Ok(progress),
            }
        }
    }

    fn resync(&mut self, chunk: &[u8], end: bool) -> Resync {
        self.search.resync(chunk, end)
    }
}

/// What comes behind a sample, or behind something that is none.
enum Next {
    /// Whatever starts there.
    At(usize),
    /// More must come first.
    Stands(Progress),
}

impl WebDataset {
    /// Passes over what is left of a member outside of samples; answers where the next thing stands, or
    /// how far it came.
    ///
    /// The last block is passed over only together with a look at what follows. So the end of the
    /// input, where it is none of an archive, always finds something left over and is noticed.
    fn pass_over(&mut self, chunk: &[u8], at: usize) -> Result<usize, Progress> {
        let held = chunk.len() - at;
        let block = BLOCK as u64;
        if self.pass == 0 || held as u64 >= self.pass.saturating_add(block) {
            // Not more than the chunk, so it fits.
            let passed = at + self.pass as usize;
            self.pass = 0;
            return Ok(passed);
        }
        let most = usize::try_from(self.pass - block).unwrap_or(usize::MAX);
        let step = (held.saturating_sub(1) / BLOCK * BLOCK).min(most);
        self.pass -= step as u64;
        let need = if self.pass == block { 2 * BLOCK } else { BLOCK + 1 };
        Err(Progress { consumed: at + step, need })
    }

    /// Emits the sample that starts at `start`, if it is whole; a thing there that is none is marked as
    /// to be passed over.
    fn sample(
        &mut self,
        chunk: &[u8],
        start: usize,
        end: bool,
        out: &mut Records,
    ) -> Result<Next, DecodeError> {
        let (mut at, mut is_open) = (start, false);
        loop {
            let looked = match self.look(chunk, at, end) {
                Ok(looked) => looked,
                Err(wrong) => {
                    self.search.begin(None, 0);
                    let key = is_open.then_some(&*self.sample.key);
                    return Err(errors::damaged(start, key, wrong));
                }
            };
            let member = match looked {
                Look::Member(member) => member,
                Look::Zeros if self.at_end => return Ok(Next::At(at + BLOCK)),
                Look::Zeros => {
                    if is_open {
                        self.emit(chunk, at, out)?;
                    }
                    self.at_end = true;
                    return Ok(Next::At(at + BLOCK));
                }
                Look::Cut { need } => {
                    let progress = Progress { consumed: start, need: at - start + need };
                    return Ok(Next::Stands(progress));
                }
            };
            self.at_end = false;
            let part = self.part(chunk, start, &member, is_open);
            match part {
                Part::None if !is_open => {
                    self.pass = member.size_from(at);
                    return Ok(Next::At(at));
                }
                Part::Other => {
                    self.emit(chunk, at, out)?;
                    return Ok(Next::At(at));
                }
                Part::None | Part::Own { .. } => is_open = true,
            }
            let size = self.check_size(start, &member)?;
            if size > (chunk.len() - start) as u64 {
                // A block behind it must be seen, too.
                let need = usize::try_from(size.saturating_add(BLOCK as u64));
                let progress = Progress { consumed: start, need: need.unwrap_or(usize::MAX) };
                return Ok(Next::Stands(progress));
            }
            // In the chunk, as was just checked.
            at = start + size as usize;
            if let Part::Own { extension } = part {
                self.sample.add(extension, member.data..member.data + member.size as usize);
            }
        }
    }

    /// What stands at `at`. Zeros are the mark of an archive's end where two blocks of them stand, or one
    /// at the end of the input; behind a mark there may be any number.
    fn look(&self, chunk: &[u8], at: usize, end: bool) -> Result<Look, Wrong> {
        match look(chunk, at)? {
            Look::Zeros if !self.at_end => match look(chunk, at + BLOCK) {
                Ok(Look::Zeros) => Ok(Look::Zeros),
                Ok(Look::Cut { .. }) if chunk.len() - at < 2 * BLOCK => {
                    Ok(if end { Look::Zeros } else { Look::Cut { need: 2 * BLOCK } })
                }
                _ => Err(Wrong::LoneZeros { at }),
            },
            looked => Ok(looked),
        }
    }

    /// What a member is to the sample that started at `start`. If none did, it may start one.
    fn part(&mut self, chunk: &[u8], start: usize, member: &Member, is_open: bool) -> Part {
        let Some(path) = member.path(chunk, &mut self.joined) else { return Part::None };
        let Some(dot) = key::dot(path) else { return Part::None };
        let key = &path[..dot];
        if !is_open {
            self.sample.open(start, key, member.place(0..dot));
        } else if key != self.sample.key {
            return Part::Other;
        }
        // The extension is a part of the file name, which stands in one piece.
        member.place(dot + 1..path.len()).map_or(Part::None, |extension| Part::Own { extension })
    }

    /// Bytes of the sample that started at `start` up to the end of this member, if it may have so many.
    fn check_size(&mut self, start: usize, member: &Member) -> Result<u64, DecodeError> {
        let (size, max) = (member.size_from(start), self.max_record);
        if size > max {
            self.search.begin(Some(&self.sample.key), member.size_from(member.data));
            return Err(errors::too_large(start, &self.sample.key, size, max, member.data));
        }
        Ok(size)
    }

    /// Emits the sample, behind which the next thing stands at `next`.
    fn emit(&self, chunk: &[u8], next: usize, out: &mut Records) -> Result<(), DecodeError> {
        self.sample.emit(chunk, &self.wanted, out).map_err(|unfit| {
            out.abandon_record();
            errors::unfit(&self.sample, chunk, next, unfit)
        })
    }
}

/// What a member is to a sample.
enum Part {
    /// Nothing: it belongs to no sample at all.
    None,
    /// It has another key.
    Other,
    /// One of its members.
    Own { extension: Range<usize> },
}
