//! The rows of a deflated array. The host decompresses it, part by part.
//!
//! A part has complete rows, and its size depends only on the size of a row. So the rows that an
//! error hides do not depend on how the input was split. After some parts, `decode` returns, to be
//! called again with the same chunk.

use std::ops::Range;

use pipemill_parsing::npy::{ArrayBytes, NpyHeader, ReadHeader, read_header};
use pipemill_plugin::{Block, Codec, DecodeError, Progress, Records};

use crate::crc32::Crc32;
use crate::errors::{of_member, wrong_crc};
use crate::member::{Member, MemberError, Tail, header_error, read_tail};
use crate::state::{InflatedRows, Npz, State, Step, more_bytes};
use crate::zip::{SIGNATURE, Sizes};

/// Size of a part in bytes: its rows, and the spans that refer to them.
const PART_BYTES: u64 = 256 << 10;
/// Size of a span in bytes.
const SPAN_BYTES: u64 = 8;
/// Number of bytes that are decompressed first, to read the header of the array. Most have 128.
const FIRST_BYTES: usize = 128;

/// The reason why a part of a member is not available.
enum PartError {
    /// The member is damaged, or is not supported.
    Member(MemberError),
    /// The host gives no more bytes in this call.
    NotNow,
}

impl From<MemberError> for PartError {
    fn from(error: MemberError) -> Self {
        Self::Member(error)
    }
}

fn damaged(why: impl Into<String>) -> PartError {
    PartError::Member(MemberError::Damaged(why.into()))
}

impl Npz {
    /// Number of decompressed bytes that a call of `decode` makes, with the spans that refer to
    /// them. The host's default for `limits.output` is twice this.
    pub(crate) fn call_bytes(&self) -> u64 {
        self.max_record.saturating_mul(2)
    }

    /// Emits rows of a deflated array. `rows` is the rest of it; `None` if nothing was read yet.
    pub(crate) fn inflate(
        &mut self,
        member: &Member,
        rows: Option<Box<InflatedRows>>,
        chunk: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Step, DecodeError> {
        let (at, held) = (member.at, chunk.len() - member.at);
        let Sizes { compressed, .. } = member.sizes();
        if member.header.is_streamed() {
            // This call reports why it is refused.
            if let Err(step) = self.known_size(member, chunk, end)? {
                return Ok(step);
            }
        }
        if compressed > self.max_record {
            let why = format!(
                "deflated data of {compressed} bytes is larger than max_record ({} bytes); raise \
                 max_record, or write the archive with np.savez, without compression",
                self.max_record
            );
            return Err(self.skip_bad(member, compressed, &why));
        }
        let after = member.descriptor().map_or(1, |_| SIGNATURE);
        let data_end = member.data as u64 + compressed;
        let (next, sizes) = match chunk
            .get(member.data..)
            .and_then(|data| data.get(compressed as usize..))
        {
            None => {
                let need = usize::try_from(data_end - at as u64).unwrap_or(usize::MAX);
                return more_bytes(at, need.saturating_add(after), "a deflated array", held, end);
            }
            Some(rest) => match read_tail(rest, member.descriptor(), member.sizes()) {
                Tail::Whole(size, sizes) => (data_end as usize + size, sizes),
                Tail::Cut { need } => {
                    let need = data_end as usize - at + need;
                    return more_bytes(at, need, "what follows a deflated array", held, end);
                }
            },
        };
        if at > 0 && self.made > self.call_bytes() / 2 {
            // The output of this call leaves too little for a part.
            return Ok(Step::Return(Progress::more(at)));
        }
        let range = member.range(compressed);
        let is_new = rows.is_none();
        match self.parts(member, rows, range, sizes, out) {
            Ok(None) => {
                if is_new {
                    self.begin(member);
                }
                Ok(Step::GoOn(next))
            }
            Ok(Some(left)) => {
                if is_new {
                    self.begin(member);
                }
                self.state = State::Inflate(left);
                Ok(Step::Return(Progress::more(at)))
            }
            // Nothing of this member was emitted, but other members were in this call.
            Err(PartError::NotNow) if at > 0 => Ok(Step::Return(Progress::more(at))),
            Err(PartError::NotNow) => Err(DecodeError::refused(
                at,
                of_member(
                    &member.name,
                    "expected the host to decompress a row in a call; raise `limits.output`",
                ),
            )),
            Err(PartError::Member(MemberError::Refused(why))) => {
                Err(DecodeError::refused(at, of_member(&member.name, &why)))
            }
            Err(PartError::Member(MemberError::Damaged(why))) => {
                if is_new {
                    self.begin(member);
                }
                out.bad(at..next, of_member(&member.name, &why))?;
                Ok(Step::GoOn(next))
            }
        }
    }

    /// Emits parts until the member ends, or the call has made enough. Returns the rest.
    fn parts(
        &mut self,
        member: &Member,
        rows: Option<Box<InflatedRows>>,
        range: Range<usize>,
        sizes: Sizes,
        out: &mut Records,
    ) -> Result<Option<Box<InflatedRows>>, PartError> {
        let mut rows = match rows {
            Some(rows) => rows,
            None => match self.begin_parts(member, &range, sizes, out)? {
                Some(rows) => rows,
                None => return Ok(None),
            },
        };
        let mut is_first = true;
        loop {
            let count = rows.left.min(rows.part_rows);
            let row = rows.layout.record;
            let cost = count * (row + SPAN_BYTES * rows.layout.fields().len() as u64);
            if !is_first && self.made.saturating_add(cost) > self.call_bytes() {
                return Ok(Some(rows));
            }
            let size = (count * row) as usize;
            let part = decompress(&range, rows.done, size, out)?;
            if part.bytes.len() < size && !part.last {
                // A part of rows is emitted as a whole, or in the next call.
                return if is_first { Err(PartError::NotNow) } else { Ok(Some(rows)) };
            }
            self.made += cost;
            rows.add(&part.bytes, size, sizes)?;
            let is_last = count == rows.left;
            if is_last != part.last {
                return Err(damaged(wrong_plain_size(sizes, rows.done, part.last)));
            }
            if is_last {
                rows.check_crc(sizes)?;
            }
            for index in 0..count as usize {
                let added =
                    rows.layout.add_fields(ArrayBytes::Block(&part), index * row as usize, out);
                if let Err(error) = added {
                    out.abandon_record();
                    let number = rows.layout.records - rows.left + index as u64;
                    return Err(damaged(format!("row {number}: {}", rows.layout.describe(error))));
                }
                out.end_record(member.at);
            }
            rows.left -= count;
            if rows.left == 0 {
                return Ok(None);
            }
            is_first = false;
        }
    }

    /// Reads the header of the array. Returns its rows; `None` if it has none.
    fn begin_parts(
        &mut self,
        member: &Member,
        range: &Range<usize>,
        sizes: Sizes,
        out: &mut Records,
    ) -> Result<Option<Box<InflatedRows>>, PartError> {
        let (header, head) = read_inflated_header(range, out)?;
        let layout = self.layout(member, &header, sizes.plain, out)?;
        self.made += head.bytes.len() as u64;
        let mut crc = self.verify.then(Crc32::new);
        if let Some(crc) = &mut crc {
            crc.update(&head.bytes[..header.size]);
        }
        let cost = layout.record + SPAN_BYTES * layout.fields().len() as u64;
        let part_rows = (PART_BYTES.min(self.max_record) / cost).max(1);
        let (left, done) = (layout.records, header.size as u64);
        let rows = InflatedRows { layout, left, part_rows, done, crc };
        if left > 0 {
            return Ok(Some(Box::new(rows)));
        }
        if !head.last || head.bytes.len() > header.size {
            return Err(damaged(wrong_plain_size(sizes, done, false)));
        }
        rows.check_crc(sizes)?;
        Ok(None)
    }
}

impl InflatedRows {
    /// Records a part that was decompressed. It must have `size` bytes.
    fn add(&mut self, part: &[u8], size: usize, sizes: Sizes) -> Result<(), PartError> {
        self.done += part.len() as u64;
        if part.len() < size {
            return Err(damaged(wrong_plain_size(sizes, self.done, true)));
        }
        if let Some(crc) = &mut self.crc {
            crc.update(part);
        }
        Ok(())
    }

    /// Compares the checksum of all bytes with that of the archive.
    fn check_crc(&self, sizes: Sizes) -> Result<(), PartError> {
        match self.crc.map(Crc32::value) {
            Some(found) if found != sizes.crc32 => {
                let what = "the array is damaged, perhaps also in rows that were read before";
                Err(damaged(wrong_crc(sizes.crc32, found, what)))
            }
            _ => Ok(()),
        }
    }
}

/// Decompresses `size` bytes of a block after the first `skip`.
fn decompress(
    range: &Range<usize>,
    skip: u64,
    size: usize,
    out: &mut Records,
) -> Result<Block, PartError> {
    out.decompress_part(Codec::Deflate, range.clone(), skip, size).map_err(damaged)
}

/// The member does not have the size that its header says.
fn wrong_plain_size(sizes: Sizes, found: u64, is_end: bool) -> String {
    let more = if is_end { "" } else { " and more" };
    format!("expected {} bytes after decompression, found {found}{more}", sizes.plain)
}

/// Reads the header of a deflated array. Also returns the bytes that were decompressed for it.
fn read_inflated_header(
    range: &Range<usize>,
    out: &mut Records,
) -> Result<(NpyHeader, Block), PartError> {
    let mut size = FIRST_BYTES;
    loop {
        let part = decompress(range, 0, size, out)?;
        match read_header(&part.bytes).map_err(header_error)? {
            ReadHeader::Whole(header) => return Ok((header, part)),
            ReadHeader::Cut { need } if part.last => {
                return Err(damaged(format!(
                    "expected an array, whose header has at least {need} bytes, found {} bytes",
                    part.bytes.len()
                )));
            }
            ReadHeader::Cut { .. } if part.bytes.len() < size => return Err(PartError::NotNow),
            ReadHeader::Cut { need } => size = need,
        }
    }
}
