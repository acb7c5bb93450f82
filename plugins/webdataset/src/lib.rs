//! WebDataset: tar archives in which consecutive files with one key (the path up to the first dot
//! of the file name) form a sample. Fields are the members that the option `fields` names by their
//! extensions, and the key. Bytes, text and arrays of NumPy are spans of the chunk; numbers that
//! are written as text, and values of JSON texts, are converted.
//!
//! The tar formats are those of POSIX, GNU and older writers, with long names and large sizes. The
//! rules for keys are those of webdataset: see `key`. Directories, links and other entries that are
//! not files are skipped, and so are files without an extension and files that webdataset treats as
//! metadata.
//!
//! **Alignment.** Headers are at multiples of 512 bytes. Consumed bytes, the positions where
//! decoding continues after an error and the bytes that a search skips are always complete blocks.
//! So every chunk starts with a block, and no state is needed to know where blocks start.
//!
//! **Reading twice.** A sample ends at another key, at the end mark or with the input, so the whole
//! sample and the header after it must be in the chunk. Until then the sample is passed again; only
//! its headers are read again. `need` is exact, so this happens at most once per member.

mod array;
mod errors;
mod header;
mod key;
mod member;
mod recent;
mod sample;
mod search;
mod trailing;
mod wanted;

use std::ops::Range;

use header::BLOCK;
use member::{Member, MemberError, NextMember, read_member};
use pipemill_parsing::head::Head;
use pipemill_parsing::json::nan_option;
use pipemill_plugin::{
    DecodeError, Decoder, Field, Level, OptionSpec, Options, Progress, Records, Resync, StreamInfo,
};
use recent::RecentKeys;
use sample::Sample;
use search::Search;
use wanted::Wanted;

/// The `webdataset` decoder.
#[derive(Debug)]
pub struct WebDataset {
    head: Head,
    wanted: Wanted,
    /// Largest sample in bytes, with its headers.
    max_record: u64,
    /// Number of remaining bytes of a skipped member that belongs to no sample. They are complete
    /// blocks.
    to_skip: u64,
    /// Whether the end mark of an archive was read last.
    at_end: bool,
    /// Whether a member was read.
    has_members: bool,
    search: Search,
    /// The keys of the archive's samples so far.
    recent: RecentKeys,
    /// The counts that are logged at the end of the archive.
    counts: Counts,
    /// The sample that is being read. It is a member so that its memory is reused.
    sample: Sample,
    /// Buffer for paths in two pieces. It is a member so that its memory is reused.
    joined: Vec<u8>,
}

#[cfg(feature = "export")]
pipemill_plugin::export!(WebDataset);

impl Decoder for WebDataset {
    fn options() -> Vec<OptionSpec> {
        vec![
            OptionSpec::string(
                "fields",
                None,
                "the members of a sample to emit, by their extensions, and their types: \
                 \"jpg;png,cls:int64,x.npy:float32[3,4],id=json/meta/id:int64,txt:utf8?\"; required",
            ),
            OptionSpec::bool("key", true, "emit the sample's key as the field `__key__`"),
            nan_option(),
        ]
    }

    fn open(options: &Options, info: &StreamInfo) -> Result<Self, String> {
        Ok(Self {
            head: Head::new(info),
            wanted: Wanted::new(options)?,
            max_record: info.max_record,
            to_skip: 0,
            at_end: false,
            has_members: false,
            search: Search::default(),
            recent: RecentKeys::default(),
            counts: Counts::default(),
            sample: Sample::default(),
            joined: Vec::new(),
        })
    }

    fn schema(&self) -> Option<Vec<Field>> {
        Some(self.wanted.schema())
    }

    fn restart(&self) -> Option<u64> {
        // After an end mark, the rules for the next blocks differ.
        (self.to_skip == 0 && !self.at_end).then_some(0)
    }

    fn decode(
        &mut self,
        chunk: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        let result = self.decode_records(chunk, end, out);
        self.head.explain(chunk, end, result)
    }

    fn resync(&mut self, chunk: &[u8], end: bool) -> Resync {
        self.search.resync(chunk, end)
    }
}

/// The result of [`WebDataset::sample`].
enum NextStep {
    /// Decoding continues at this offset.
    GoOn(usize),
    /// More bytes are needed: `decode` returns this.
    Return(Progress),
}

impl WebDataset {
    /// Emits the records that are completely in the chunk.
    fn decode_records(
        &mut self,
        chunk: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        let mut at = 0;
        loop {
            let step = match self.skip(chunk, at, end) {
                Ok(start) => self.sample(chunk, start, end, out)?,
                Err(progress) => return Ok(progress),
            };
            match step {
                NextStep::GoOn(next) => at = next,
                NextStep::Return(progress) => return Ok(progress),
            }
        }
    }

    /// Skips the rest of a member that belongs to no sample. Returns its end, or the progress if
    /// its end is not in the chunk.
    ///
    /// Its last block is skipped only if the block after it is in the chunk, or if the input ends
    /// after it. So an input that ends inside the member has unconsumed bytes, and the host reports
    /// it.
    fn skip(&mut self, chunk: &[u8], at: usize, end: bool) -> Result<usize, Progress> {
        let held = chunk.len() - at;
        let block = BLOCK as u64;
        let is_last = end && held as u64 == self.to_skip;
        if self.to_skip == 0 || is_last || held as u64 >= self.to_skip.saturating_add(block) {
            // The value fits: the chunk is not shorter.
            let end = at + self.to_skip as usize;
            self.to_skip = 0;
            return Ok(end);
        }
        let most = usize::try_from(self.to_skip - block).unwrap_or(usize::MAX);
        let step = (held.saturating_sub(1) / BLOCK * BLOCK).min(most);
        self.to_skip -= step as u64;
        let need = if self.to_skip == block { 2 * BLOCK } else { BLOCK + 1 };
        Err(Progress::consumed(at + step).and_wants(need))
    }

    /// Emits the sample that starts at `start`, if it is complete. If the member there belongs to
    /// no sample, sets `to_skip` instead.
    fn sample(
        &mut self,
        chunk: &[u8],
        start: usize,
        end: bool,
        out: &mut Records,
    ) -> Result<NextStep, DecodeError> {
        let (mut at, mut is_open) = (start, false);
        loop {
            let next = match self.next_member(chunk, at, end) {
                Ok(next) => next,
                Err(error) => {
                    // After an end mark no sample is open.
                    if self.at_end
                        && error.is_no_header(at)
                        && let Some(progress) = trailing::ignore(chunk, at, end, out)
                    {
                        return Ok(NextStep::Return(progress));
                    }
                    self.search.begin(None, 0);
                    let key = is_open.then_some(&*self.sample.key);
                    return Err(errors::damaged(start, key, error));
                }
            };
            let member = match next {
                NextMember::Member(member) => member,
                NextMember::Zeros if self.at_end => return Ok(NextStep::GoOn(at + BLOCK)),
                NextMember::Zeros if is_open => {
                    self.emit(chunk, at, out)?;
                    // The mark is consumed by a separate call. So the bytes that a call consumes
                    // after the start of a sample are this sample, which a decoder that wraps this
                    // one relies on.
                    return Ok(NextStep::Return(Progress::consumed(at).and_wants(1)));
                }
                NextMember::Zeros => {
                    self.at_end = true;
                    self.end_archive(out);
                    return Ok(NextStep::GoOn(at + BLOCK));
                }
                NextMember::Cut { .. } if end && at == chunk.len() => {
                    if is_open {
                        self.emit(chunk, at, out)?;
                    }
                    self.check_end_mark(out);
                    self.end_archive(out);
                    return Ok(NextStep::Return(Progress::consumed(at)));
                }
                NextMember::Cut { need } => {
                    let progress = Progress::consumed(start).and_wants(at - start + need);
                    return Ok(NextStep::Return(progress));
                }
            };
            (self.at_end, self.has_members) = (false, true);
            let role = self.role(chunk, start, &member, is_open);
            match role {
                MemberRole::None | MemberRole::OfMacOs if !is_open => {
                    self.counts.of_macos += u64::from(matches!(role, MemberRole::OfMacOs));
                    self.to_skip = member.size_from(at);
                    return Ok(NextStep::GoOn(at));
                }
                MemberRole::OtherSample => {
                    self.emit(chunk, at, out)?;
                    return Ok(NextStep::GoOn(at));
                }
                MemberRole::None | MemberRole::OfMacOs | MemberRole::Own { .. } => is_open = true,
            }
            let size = self.check_size(start, &member)?;
            if size > (chunk.len() - start) as u64 {
                // The block after the member is needed, too.
                let need = usize::try_from(size.saturating_add(BLOCK as u64));
                let progress = Progress::consumed(start).and_wants(need.unwrap_or(usize::MAX));
                return Ok(NextStep::Return(progress));
            }
            // The value fits: the chunk is not shorter, as checked above.
            at = start + size as usize;
            self.add(role, &member);
        }
    }

    /// The member or the end mark at `at`. The end mark of an archive is two blocks of zeros, or
    /// one at the end of the input. After an end mark any number of zero blocks may follow.
    fn next_member(&self, chunk: &[u8], at: usize, end: bool) -> Result<NextMember, MemberError> {
        match read_member(chunk, at)? {
            NextMember::Zeros if !self.at_end => match read_member(chunk, at + BLOCK) {
                Ok(NextMember::Zeros) => Ok(NextMember::Zeros),
                Ok(NextMember::Cut { .. }) if chunk.len() - at < 2 * BLOCK => {
                    Ok(if end { NextMember::Zeros } else { NextMember::Cut { need: 2 * BLOCK } })
                }
                _ => Err(MemberError::LoneZeros { at }),
            },
            next => Ok(next),
        }
    }

    /// Warns of an archive that ends after a complete member, without an end mark. Other readers of
    /// tar accept it, too.
    fn check_end_mark(&mut self, out: &mut Records) {
        if self.has_members && !self.at_end {
            self.at_end = true;
            out.log(
                Level::Warn,
                "the archive ends without an end mark, two blocks of zeros; if it was cut short, \
                 members are missing",
            );
        }
    }

    /// The role of a member in the sample that started at `start`. If no sample is open, the member
    /// may start one.
    fn role(&mut self, chunk: &[u8], start: usize, member: &Member, is_open: bool) -> MemberRole {
        let Some(path) = member.path(chunk, &mut self.joined) else { return MemberRole::None };
        let Some(dot) = key::dot(path) else {
            return if key::is_of_macos(path) { MemberRole::OfMacOs } else { MemberRole::None };
        };
        let key = &path[..dot];
        if !is_open {
            self.sample.open(start, key, member.range_of(0..dot));
        } else if key != self.sample.key {
            return MemberRole::OtherSample;
        }
        // The extension is part of the file name, which is in one piece.
        let extension = member.range_of(dot + 1..path.len());
        extension.map_or(MemberRole::None, |extension| MemberRole::Own { extension })
    }

    /// Adds a member to the open sample. Its data is in the chunk.
    fn add(&mut self, role: MemberRole, member: &Member) {
        match role {
            MemberRole::Own { extension } => {
                self.sample.add(extension, member.data..member.data + member.size as usize);
            }
            MemberRole::OfMacOs => self.sample.of_macos += 1,
            MemberRole::None | MemberRole::OtherSample => {}
        }
    }

    /// Size of the sample in bytes, from `start` to the end of this member. An error if they are
    /// more than `max_record`.
    fn check_size(&mut self, start: usize, member: &Member) -> Result<u64, DecodeError> {
        let (size, max) = (member.size_from(start), self.max_record);
        if size > max {
            self.search.begin(Some(&self.sample.key), member.size_from(member.data));
            return Err(errors::too_large(start, &self.sample.key, size, max, member.data));
        }
        Ok(size)
    }

    /// Emits the sample. The next member starts at `next`.
    fn emit(&mut self, chunk: &[u8], next: usize, out: &mut Records) -> Result<(), DecodeError> {
        self.counts.of_macos += self.sample.of_macos;
        let comes_again = self.recent.insert(&self.sample.key);
        if comes_again {
            self.counts.comes_again(&self.sample.key, out);
        }
        self.sample.emit(chunk, &mut self.wanted, out).map_err(|error| {
            out.abandon_record();
            errors::invalid_sample(&self.sample, chunk, next, error, comes_again)
        })
    }

    /// The archive ended: the next one may have the same keys.
    fn end_archive(&mut self, out: &mut Records) {
        self.recent.clear();
        self.counts.tell(out);
    }
}

/// The counts of an archive, for the log.
#[derive(Debug, Default)]
struct Counts {
    /// Number of samples whose key an earlier sample had.
    again: u64,
    /// Number of files of macOS that were left out.
    of_macos: u64,
}

impl Counts {
    /// Counts a sample whose key an earlier sample had. The first one is logged at once.
    #[cold]
    fn comes_again(&mut self, key: &[u8], out: &mut Records) {
        self.again += 1;
        if self.again == 1 {
            let message = format!(
                "sample `{}`: a sample with this key came before, so its members are not next to \
                 each other, and become several records; sort the archive by name",
                key.escape_ascii()
            );
            out.log(Level::Warn, &message);
        }
    }

    /// Logs the counts, and resets them.
    fn tell(&mut self, out: &mut Records) {
        if let Self { again: again @ 2.., .. } = self {
            let message = format!(
                "{again} samples of the archive had keys that came before: their members are not \
                 next to each other; sort the archive by name"
            );
            out.log(Level::Warn, &message);
        }
        if let Self { of_macos: files @ 1.., .. } = self {
            let message = format!("left out {files} files of macOS (`._…`, `.DS_Store`)");
            out.log(Level::Info, &message);
        }
        *self = Self::default();
    }
}

/// The role of a member in the open sample.
enum MemberRole {
    /// It belongs to no sample.
    None,
    /// It is a file of macOS, which is left out and counted.
    OfMacOs,
    /// It has another key, so it belongs to the next sample.
    OtherSample,
    /// It belongs to the open sample. `extension` is the range of its extension in the chunk.
    Own { extension: Range<usize> },
}
