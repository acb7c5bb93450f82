//! Reads one member of the archive: its header, and the headers before it that give it a longer
//! name or size. Pax records for all members count as a member that is skipped; they must not set a
//! path or a size, or mark sparse files.

use std::ops::Range;

use crate::header::{BLOCK, EntryType, Header, HeaderError, PREFIX, is_zero};

/// Largest size, in bytes, of the extra headers of one member. Real ones are smaller, even with a
/// long name and all attributes of the file. Larger ones are damaged. With the member's own header
/// this is less than the 1 MiB of framing that the host allows.
pub(crate) const MAX_EXTRA_HEADERS: u64 = 960 << 10;

/// The result of [`read_member`].
#[derive(Debug)]
pub(crate) enum NextMember {
    /// A member. Its headers are in the chunk; its data may not be.
    Member(Member),
    /// A block of zeros: a part of the end mark.
    Zeros,
    /// The chunk ends inside the headers. At least `need` bytes from their start are needed.
    Cut { need: usize },
}

/// A member. Offsets count from the start of the chunk.
#[derive(Debug)]
pub(crate) struct Member {
    /// The path, if the member is a file with data. Other members are skipped.
    pub(crate) path: Option<MemberPath>,
    /// The start of the data.
    pub(crate) data: usize,
    /// Size of the data in bytes, without padding.
    pub(crate) size: u64,
}

impl Member {
    /// The bytes of the path. If it is in two pieces, they are joined in `joined`.
    pub(crate) fn path<'a>(&self, chunk: &'a [u8], joined: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        Some(match self.path.clone()? {
            MemberPath::Whole(range) => &chunk[range],
            MemberPath::Split(prefix, name) => {
                joined.clear();
                joined.extend_from_slice(&chunk[prefix]);
                joined.push(b'/');
                joined.extend_from_slice(&chunk[name]);
                joined
            }
        })
    }

    /// The range in the chunk of a part of the path, given by its range in the path. `None` if the
    /// part is not in one piece.
    pub(crate) fn range_of(&self, part: Range<usize>) -> Option<Range<usize>> {
        let (piece, skipped) = match self.path.as_ref()? {
            MemberPath::Whole(range) => (range, 0),
            // Skips the prefix and the slash.
            MemberPath::Split(prefix, name) => (name, prefix.len() + 1),
        };
        let offset = |at: usize| at.checked_sub(skipped).map(|at| piece.start + at);
        Some(offset(part.start)?..offset(part.end)?)
    }

    /// Number of bytes from `start` to the next member. `start` is not after the data.
    pub(crate) fn size_from(&self, start: usize) -> u64 {
        let blocks = self.size.div_ceil(BLOCK as u64);
        let headers = (self.data - start) as u64;
        blocks.saturating_mul(BLOCK as u64).saturating_add(headers)
    }
}

/// The ranges of a path in the chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MemberPath {
    /// The path is in one piece.
    Whole(Range<usize>),
    /// The path is the prefix, a slash and the name.
    Split(Range<usize>, Range<usize>),
}

/// The reason why no member can be read. `at` is the offset of the invalid header in the chunk.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum MemberError {
    /// The block is not a header.
    Header { at: usize, error: HeaderError },
    /// The extra headers, up to this one, have at least `size` bytes.
    TooLong { at: usize, size: u64 },
    /// The pax records are invalid.
    Pax { at: usize },
    /// The pax records for all members set `key`, which is not supported.
    Global { at: usize, key: &'static str },
    /// The block is zeros, but the one after it is not.
    LoneZeros { at: usize },
    /// The file is sparse.
    Sparse { at: usize },
}

impl MemberError {
    /// Whether the block at `start`, where a member was expected, is not a header.
    pub(crate) fn is_no_header(&self, start: usize) -> bool {
        matches!(self, Self::Header { at, .. } if *at == start)
    }
}

/// The values that the extra headers of a member set. Ranges are in the chunk.
#[derive(Default)]
struct ExtraHeaders {
    /// GNU tar's long name.
    long_name: Option<Range<usize>>,
    /// The path in the pax records.
    path: Option<Range<usize>>,
    /// The size in the pax records.
    size: Option<u64>,
    /// Whether the pax records mark a sparse file.
    sparse: bool,
}

/// Reads the headers of the member that starts at `start`.
pub(crate) fn read_member(chunk: &[u8], start: usize) -> Result<NextMember, MemberError> {
    let mut extra = ExtraHeaders::default();
    let mut at = start;
    loop {
        let Some(block) = chunk.get(at..).and_then(<[u8]>::first_chunk) else {
            return Ok(NextMember::Cut { need: at - start + BLOCK });
        };
        if at == start && is_zero(block) {
            return Ok(NextMember::Zeros);
        }
        let header = Header::read(block).map_err(|error| MemberError::Header { at, error })?;
        let data = at + BLOCK;
        use EntryType::{File, NoData, Other, Sparse};
        if matches!(header.entry_type, File | Sparse | NoData | Other) {
            return extra.member(header, at).map(NextMember::Member);
        }
        let so_far = (at - start) as u64;
        if header.size > MAX_EXTRA_HEADERS || so_far + header.size > MAX_EXTRA_HEADERS {
            return Err(MemberError::TooLong { at, size: so_far.saturating_add(header.size) });
        }
        // The value fits: it is below the limit.
        let end = data + header.size as usize;
        let next = data + (header.size as usize).next_multiple_of(BLOCK);
        let Some(text) = chunk.get(data..end) else {
            // At least one more header follows.
            return Ok(NextMember::Cut { need: next - start + BLOCK });
        };
        match header.entry_type {
            EntryType::LongName => {
                let name = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
                extra.long_name = Some(data..data + name);
            }
            EntryType::Pax => extra.read_pax(text, data).ok_or(MemberError::Pax { at })?,
            EntryType::GlobalPax => {
                let mut global = ExtraHeaders::default();
                global.read_pax(text, data).ok_or(MemberError::Pax { at })?;
                if let Some(key) = global.pax_key() {
                    return Err(MemberError::Global { at, key });
                }
                if at == start {
                    return Ok(NextMember::Member(Member { path: None, data, size: header.size }));
                }
            }
            _ => {}
        }
        at = next;
    }
}

impl ExtraHeaders {
    /// The member with this header, which is at `at`.
    fn member(self, header: Header, at: usize) -> Result<Member, MemberError> {
        let has_whole_name = self.path.is_none() && self.long_name.is_none();
        if header.is_old_directory && has_whole_name {
            return Ok(Member { path: None, data: at + BLOCK, size: 0 });
        }
        let mut size = header.size;
        if header.entry_type != EntryType::NoData {
            size = self.size.unwrap_or(size);
        }
        if header.entry_type == EntryType::Sparse || self.sparse {
            return Err(MemberError::Sparse { at });
        }
        let name = at..at + header.name;
        let path = match self.path.or(self.long_name) {
            Some(path) => MemberPath::Whole(path),
            None if header.prefix > 0 => {
                MemberPath::Split(at + PREFIX..at + PREFIX + header.prefix, name)
            }
            None => MemberPath::Whole(name),
        };
        let path = (header.entry_type == EntryType::File).then_some(path);
        Ok(Member { path, data: at + BLOCK, size })
    }

    /// Reads pax records, `length key=value\n` each. `text` is at `at` in the chunk. `None` if they
    /// are invalid.
    fn read_pax(&mut self, text: &[u8], at: usize) -> Option<()> {
        let mut from = 0;
        while from < text.len() {
            let rest = &text[from..];
            let blank = rest.iter().take(20).position(|byte| *byte == b' ')?;
            let length: usize = str::from_utf8(&rest[..blank]).ok()?.parse().ok()?;
            let record = rest.get(blank + 1..length)?.strip_suffix(b"\n")?;
            let equals = record.iter().position(|byte| *byte == b'=')?;
            let value = &record[equals + 1..];
            // A record without a value removes the value of an earlier record.
            match &record[..equals] {
                b"path" => {
                    let end = at + from + length - 1;
                    self.path = (!value.is_empty()).then_some(end - value.len()..end);
                }
                b"size" if value.is_empty() => self.size = None,
                b"size" => self.size = Some(str::from_utf8(value).ok()?.parse().ok()?),
                key if key.starts_with(b"GNU.sparse.") => self.sparse = true,
                _ => {}
            }
            from += length;
        }
        Some(())
    }

    /// The key of a value that pax records set, if any.
    fn pax_key(&self) -> Option<&'static str> {
        match self {
            Self { path: Some(_), .. } => Some("path"),
            Self { size: Some(_), .. } => Some("size"),
            Self { sparse: true, .. } => Some("GNU.sparse"),
            _ => None,
        }
    }
}
