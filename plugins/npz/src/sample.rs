//! An archive as one record: its wanted arrays, each as a whole.

use std::ops::Range;

use pipemill_parsing::npy::{ArrayBytes, ArrayError, ArrayLayout, read_whole};
use pipemill_plugin::{Block, Codec, DecodeError, Progress, Records, pack};

use crate::archive::Archive;
use crate::errors::of_member;
use crate::member::{DataSize, Member, MemberError, Tail, read_tail};
use crate::state::{Emit, Npz, State, Step, more_bytes};
use crate::wanted::{WantedArrays, missing_message};
use crate::zip::{self, LocalHeader, Read, SIGNATURE, Sizes};

/// The members of an archive, from the first wanted one on.
struct Members {
    /// The archive, with these members.
    archive: Archive,
    /// The wanted arrays.
    found: Vec<Option<SampleMember>>,
    /// Total size in bytes of the wanted ones after decompression.
    inflated: u64,
    /// The reason why there is no record.
    problem: Option<String>,
}

struct SampleMember {
    member: Member,
    /// Size of its data in the archive, in bytes.
    size: u64,
    sizes: Sizes,
}

/// An array of a record.
struct Value {
    layout: ArrayLayout,
    /// The decompressed member; `None` if it is stored.
    block: Option<Block>,
    /// The start of the array in the chunk or in the block.
    at: usize,
}

impl Npz {
    /// Emits the record of the archive whose first wanted member is at `start`, if all members are
    /// in the chunk. Until then they are passed again.
    pub(crate) fn sample(
        &mut self,
        chunk: &[u8],
        start: usize,
        end: bool,
        out: &mut Records,
    ) -> Result<Step, DecodeError> {
        let held = chunk.len() - start;
        let more = |need: usize, expected: &str| more_bytes(start, need, expected, held, end);
        let fields = self.emit.wanted().map_or(0, WantedArrays::len);
        let archive = self.archive.clone().unwrap_or_default();
        let found = (0..fields).map(|_| None).collect();
        let mut all = Members { archive, found, inflated: 0, problem: None };
        let mut at = start;
        loop {
            let place = at - start;
            let rest = &chunk[at..];
            let Some(signature) = rest.first_chunk::<SIGNATURE>() else {
                return more(place + SIGNATURE, "the members of an archive");
            };
            match *signature {
                zip::LOCAL_HEADER => {}
                zip::DIRECTORY_ENTRY | zip::ZIP64_END | zip::ZIP64_LOCATOR | zip::END => break,
                other => {
                    let message = format!(
                        "at +{place}: expected a header of a zip archive, found `{}`; the archive is damaged \
                         here or before",
                        other.escape_ascii()
                    );
                    return Err(self.fatal(start, message));
                }
            }
            let header = match LocalHeader::read(rest) {
                Ok(Read::Whole(header)) => header,
                Ok(Read::Cut { need }) => return more(place + need, "the header of a member"),
                Err(why) => {
                    let message = format!(
                        "at +{place}: expected {why} in the header of a member, found something else; the \
                         archive is damaged"
                    );
                    return Err(self.fatal(start, message));
                }
            };
            let member = Member::new(chunk, at, header);
            let data_at = member.data - start;
            let size = match member.data_size(chunk) {
                Ok(DataSize::Known(size)) => size,
                Ok(DataSize::Cut { need }) => {
                    return more(data_at + need, "the header of an array");
                }
                Err(MemberError::Refused(why)) => {
                    return Err(DecodeError::refused(start, of_member(&member.name, &why)));
                }
                Err(MemberError::Damaged(why)) => {
                    return Err(self.fatal(start, of_member(&member.name, &why)));
                }
            };
            let wanted = self.emit.wanted().and_then(|wanted| wanted.find(member.array()?));
            if wanted.is_some() && !member.is_stored() {
                all.inflated = all.inflated.saturating_add(member.sizes().plain);
            }
            all.archive.add_member(member.array());
            let whole = (data_at as u64).saturating_add(size);
            if whole.max(all.inflated) > self.max_record {
                return Err(self.too_large(start, all, &member, size, whole));
            }
            // The value fits: max_record does.
            let data_end = start + whole as usize;
            let tail = match chunk.get(data_end..) {
                Some(rest) => read_tail(rest, member.descriptor(), member.sizes()),
                None => Tail::Cut { need: member.descriptor().map_or(1, |_| SIGNATURE) },
            };
            let (tail, sizes) = match tail {
                Tail::Whole(tail, sizes) => (tail, sizes),
                Tail::Cut { need } => {
                    return more(whole as usize + need, "the members of an archive");
                }
            };
            if let Some(index) = wanted {
                match member.check_form() {
                    Err(MemberError::Refused(why)) => {
                        return Err(DecodeError::refused(start, of_member(&member.name, &why)));
                    }
                    Err(MemberError::Damaged(why)) => all.set_problem(&member, &why),
                    Ok(()) if all.found[index].is_some() => {
                        let why = "it comes twice; each array may come once in an archive";
                        all.set_problem(&member, why);
                    }
                    Ok(()) => all.found[index] = Some(SampleMember { member, size, sizes }),
                }
            }
            at = data_end + tail;
        }
        if start > 0 && self.made > 0 && self.made.saturating_add(all.inflated) > self.call_bytes()
        {
            return Ok(Step::Return(Progress::more(start)));
        }
        self.made = self.made.saturating_add(all.inflated);
        let result = match all.problem.take() {
            Some(problem) => Err(MemberError::Damaged(problem)),
            None => self.emit_sample(chunk, start, &all, out),
        };
        self.end_sample(all);
        match result {
            Ok(()) => {}
            Err(MemberError::Damaged(why)) => out.bad(start..at, why)?,
            Err(MemberError::Refused(why)) => return Err(DecodeError::refused(start, why)),
        }
        Ok(Step::GoOn(at))
    }

    /// An error after which nothing of the input can be read.
    fn fatal(&mut self, at: usize, message: String) -> DecodeError {
        self.archive = None;
        DecodeError::fatal(at, message)
    }

    /// Records the members of a sample, after which no arrays of this archive are wanted.
    fn end_sample(&mut self, all: Members) {
        let archive = self.archive.insert(all.archive);
        archive.is_done = true;
    }

    /// The archive is larger than `max_record`. The members after the last one are skipped.
    #[cold]
    fn too_large(
        &mut self,
        start: usize,
        all: Members,
        last: &Member,
        size: u64,
        whole: u64,
    ) -> DecodeError {
        self.state = last.descriptor().map_or(State::Header, State::Descriptor);
        let message = format!(
            "the members of the archive, up to `{}`, have {} bytes, more than max_record ({} bytes); raise \
             max_record if archives may be that large",
            last.name.escape_debug(),
            whole.max(all.inflated),
            self.max_record
        );
        self.end_sample(all);
        DecodeError::skippable(start, message, (last.data as u64).saturating_add(size))
    }

    /// Emits the record.
    fn emit_sample(
        &mut self,
        chunk: &[u8],
        start: usize,
        all: &Members,
        out: &mut Records,
    ) -> Result<(), MemberError> {
        let verify = self.verify;
        let Emit::Sample(wanted) = &mut self.emit else { return Ok(()) };
        if let Some(name) = wanted.missing(&all.found) {
            return Err(MemberError::Damaged(missing_message(name, &all.archive.arrays())));
        }
        let found: Vec<_> = all.found.iter().map(Option::as_ref).collect();
        let mut blocks = Vec::new();
        for one in &found {
            blocks.push(match one {
                Some(one) => one.decompress(out).map_err(|error| one.error(error))?,
                None => None,
            });
        }
        if verify {
            let there = || found.iter().flatten();
            let crcs: Vec<_> = there().map(|one| one.sizes.crc32).collect();
            let spans = found.iter().zip(&blocks).filter_map(|(one, block)| {
                Some(match block {
                    Some(block) => out.span_in(block, 0..block.bytes.len()),
                    None => pack((*one)?.range()),
                })
            });
            let spans: Vec<_> = spans.collect();
            if let Some((one, crc)) =
                out.check_crc32(&spans, &crcs).and_then(|at| there().zip(&crcs).nth(at))
            {
                let why =
                    format!("expected the CRC-32 {crc:08x}, found another; the array is damaged");
                return Err(one.error(MemberError::Damaged(why)));
            }
        }
        let mut values = Vec::new();
        for (index, (one, block)) in found.iter().zip(blocks).enumerate() {
            values.push(match one {
                Some(one) => {
                    let value = one.value(chunk, block, wanted, index);
                    Some(value.map_err(|error| one.error(error))?)
                }
                None => None,
            });
        }
        let layouts: Vec<_> =
            values.iter().map(|value| value.as_ref().map(|value| &value.layout)).collect();
        wanted.learn(&layouts, out).map_err(MemberError::Refused)?;
        for value in values {
            let Some(Value { layout, block, at }) = value else {
                out.absent();
                continue;
            };
            let bytes = match &block {
                Some(block) => ArrayBytes::Block(block),
                None => ArrayBytes::Chunk(chunk),
            };
            if let Err(error) = layout.add_fields(bytes, at, out) {
                out.abandon_record();
                return Err(MemberError::Damaged(layout.describe(error)));
            }
        }
        out.end_record(start);
        Ok(())
    }
}

impl SampleMember {
    /// The range of the data in the chunk.
    fn range(&self) -> Range<usize> {
        self.member.range(self.size)
    }

    /// The error with the name of the member.
    fn error(&self, error: MemberError) -> MemberError {
        let name = |why: String| of_member(&self.member.name, &why);
        match error {
            MemberError::Damaged(why) => MemberError::Damaged(name(why)),
            MemberError::Refused(why) => MemberError::Refused(name(why)),
        }
    }

    /// Decompresses the data; `None` if it is stored.
    fn decompress(&self, out: &mut Records) -> Result<Option<Block>, MemberError> {
        if self.member.is_stored() {
            return Ok(None);
        }
        let plain = self.sizes.plain;
        // The value fits: max_record does. One byte more shows whether the data is longer.
        let block = out.decompress_part(Codec::Deflate, self.range(), 0, plain as usize + 1);
        let block = block.map_err(MemberError::Damaged)?;
        let found = block.bytes.len() as u64;
        if found == plain && block.last {
            return Ok(Some(block));
        }
        if found < plain && !block.last {
            let why = "expected the host to decompress the array in a call; raise `limits.output`";
            return Err(MemberError::Refused(why.to_owned()));
        }
        let more = if block.last { "" } else { " or more" };
        Err(MemberError::Damaged(format!(
            "expected {plain} bytes after decompression, found {found}{more}"
        )))
    }

    /// Reads the array, and compares it with the field of this index.
    fn value(
        &self,
        chunk: &[u8],
        block: Option<Block>,
        wanted: &WantedArrays,
        index: usize,
    ) -> Result<Value, MemberError> {
        let range = self.range();
        let bytes = match &block {
            Some(block) => &block.bytes,
            None => &chunk[range.clone()],
        };
        let name = self.member.array().unwrap_or_default();
        let (header, layout) = read_whole(bytes, name).map_err(|error| match error {
            ArrayError::Damaged(why) => MemberError::Damaged(why),
            ArrayError::Unsupported(why) => MemberError::Refused(why),
        })?;
        wanted.check(index, &header, &layout).map_err(MemberError::Damaged)?;
        let start = if block.is_some() { 0 } else { range.start };
        Ok(Value { layout, block, at: start + header.size })
    }
}

impl Members {
    fn set_problem(&mut self, member: &Member, why: &str) {
        self.problem.get_or_insert_with(|| of_member(&member.name, why));
    }
}
