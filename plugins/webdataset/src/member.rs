//! A member of the archive: its header, with the headers before it that give it a longer name or size.
//! Records of pax that are for all members are taken for a member that is passed over; they may not say
//! anything that would matter here.

use std::ops::Range;

use crate::header::{BLOCK, Fault, Header, PREFIX, Type, is_zero};

/// Bytes of the headers that say more of one member. A name, even with all attributes that file
/// systems keep, takes less; what is larger is not believed.
const MOST: u64 = 256 << 10;

/// What stands at a place.
#[derive(Debug)]
pub(crate) enum Look {
    /// A member; its headers are in the chunk, its data need not be.
    Member(Member),
    /// A block of zeros: the mark of an archive's end.
    Zeros,
    /// `need` bytes from here tell more.
    Cut { need: usize },
}

/// A member. Places count from the start of the chunk.
#[derive(Debug)]
pub(crate) struct Member {
    /// Its path, if it is a file with data. Else it is passed over.
    pub(crate) path: Option<Path>,
    /// Where its data starts.
    pub(crate) data: usize,
    /// Bytes of data.
    pub(crate) size: u64,
}

impl Member {
    /// Its path. Where that stands in two pieces, it is put together in `joined`.
    pub(crate) fn path<'a>(&self, chunk: &'a [u8], joined: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        Some(match self.path.clone()? {
            Path::Plain(range) => &chunk[range],
            Path::Split(prefix, name) => {
                joined.clear();
                joined.extend_from_slice(&chunk[prefix]);
                joined.push(b'/');
                joined.extend_from_slice(&chunk[name]);
                joined
            }
        })
    }

    /// Where in the chunk a part of its path stands, if it does in one piece.
    pub(crate) fn place(&self, part: Range<usize>) -> Option<Range<usize>> {
        let (piece, skipped) = match self.path.as_ref()? {
            Path::Plain(range) => (range, 0),
            // The prefix and the slash.
            Path::Split(prefix, name) => (name, prefix.len() + 1),
        };
        let place = |at: usize| at.checked_sub(skipped).map(|at| piece.start + at);
        Some(place(part.start)?..place(part.end)?)
    }

    /// Bytes from `start`, at or before its headers, to the next member.
    pub(crate) fn size_from(&self, start: usize) -> u64 {
        let blocks = self.size.div_ceil(BLOCK as u64);
        let headers = (self.data - start) as u64;
        blocks.saturating_mul(BLOCK as u64).saturating_add(headers)
    }
}

/// Where a path stands in the chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Path {
    /// In one piece.
    Plain(Range<usize>),
    /// In two, with a slash between.
    Split(Range<usize>, Range<usize>),
}

/// Why no member starts at a place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// The block at this place is no header.
    Header { at: usize, fault: Fault },
    /// The headers before the one at this place are too long.
    TooLong { at: usize, size: u64 },
    /// The records of pax at this place can't be read.
    Pax { at: usize },
    /// Records of pax at this place that are for all members say this.
    Global { at: usize, what: &'static str },
    /// The block at this place is zeros, but not the one behind it.
    LoneZeros { at: usize },
    /// The file with the header at this place has holes.
    Sparse { at: usize },
}

/// What headers before the member's own say of it.
#[derive(Default)]
struct Told {
    long_name: Option<Range<usize>>,
    path: Option<Range<usize>>,
    size: Option<u64>,
    sparse: bool,
}

/// Looks at the member that starts at `start`.
pub(crate) fn look(chunk: &[u8], start: usize) -> Result<Look, Wrong> {
    let mut told = Told::default();
    let mut at = start;
    loop {
        let Some(block) = chunk.get(at..).and_then(<[u8]>::first_chunk) else {
            return Ok(Look::Cut { need: at - start + BLOCK });
        };
        if at == start && is_zero(block) {
            return Ok(Look::Zeros);
        }
        let header = Header::read(block).map_err(|fault| Wrong::Header { at, fault })?;
        let data = at + BLOCK;
        if matches!(header.kind, Type::File | Type::Sparse | Type::Bare | Type::Other) {
            return told.member(header, at).map(Look::Member);
        }
        let so_far = (at - start) as u64;
        if header.size > MOST || so_far + header.size > MOST {
            return Err(Wrong::TooLong { at, size: so_far.saturating_add(header.size) });
        }
        // Less than the limit, so it fits.
        let end = data + header.size as usize;
        let next = data + (header.size as usize).next_multiple_of(BLOCK);
        let Some(text) = chunk.get(data..end) else {
            // Behind it comes one more header at least, or the next member.
            return Ok(Look::Cut { need: next - start + BLOCK });
        };
        match header.kind {
            Type::LongName => {
                let name = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
                told.long_name = Some(data..data + name);
            }
            Type::Pax => told.pax(text, data).ok_or(Wrong::Pax { at })?,
            Type::GlobalPax => {
                let mut global = Told::default();
                global.pax(text, data).ok_or(Wrong::Pax { at })?;
                if let Some(what) = global.what() {
                    return Err(Wrong::Global { at, what });
                }
                if at == start {
                    return Ok(Look::Member(Member { path: None, data, size: header.size }));
                }
            }
            _ => {}
        }
        at = next;
    }
}

impl Told {
    fn member(self, header: Header, at: usize) -> Result<Member, Wrong> {
        let mut size = header.size;
        if header.kind != Type::Bare {
            size = self.size.unwrap_or(size);
        }
        if header.kind == Type::Sparse || self.sparse {
            return Err(Wrong::Sparse { at });
        }
        let name = at..at + header.name;
        let path = match self.path.or(self.long_name) {
            Some(path) => Path::Plain(path),
            None if header.prefix > 0 => {
                Path::Split(at + PREFIX..at + PREFIX + header.prefix, name)
            }
            None => Path::Plain(name),
        };
        let path = (header.kind == Type::File).then_some(path);
        Ok(Member { path, data: at + BLOCK, size })
    }

    /// Reads records of pax, `length key=value\n` each, that stand at `at` in the chunk.
    fn pax(&mut self, text: &[u8], at: usize) -> Option<()> {
        let mut from = 0;
        while from < text.len() {
            let rest = &text[from..];
            let blank = rest.iter().take(20).position(|byte| *byte == b' ')?;
            let length: usize = str::from_utf8(&rest[..blank]).ok()?.parse().ok()?;
            let record = rest.get(blank + 1..length)?.strip_suffix(b"\n")?;
            let equals = record.iter().position(|byte| *byte == b'=')?;
            let value = &record[equals + 1..];
            // A record without a value takes back what was said before.
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

    /// What it says, in a word, if it says something.
    fn what(&self) -> Option<&'static str> {
        match self {
            Self { path: Some(_), .. } => Some("path"),
            Self { size: Some(_), .. } => Some("size"),
            Self { sparse: true, .. } => Some("GNU.sparse"),
            _ => None,
        }
    }
}
