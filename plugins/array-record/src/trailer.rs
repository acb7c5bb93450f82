//! The end of an ArrayRecord file. It has the form of records, and has none: a footer, which says where
//! the chunks lie, and a postscript, which says where the footer lies.
//!
//! The footer is a chunk of protocol buffers: one that describes the others, and one for each chunk
//! of records. The postscript is the first chunk of the file's last 64 KiB. Their messages are in
//! `cpp/layout.proto` of <https://github.com/google/array_record>.

use crate::chunk::{Chunk, NoHeader, kind};
use crate::layout::{BLOCK, Layout};
use crate::varint;

/// The number by which the postscript is known.
const MAGIC: u64 = 0x7193_0e70_4fda_e05e;
/// Number of copies of the postscript that a file has, one after the other.
const COPIES: usize = 3;
/// Largest size of the message that describes the others, in bytes.
const MAX_DESCRIPTION: u64 = 4 << 10;
/// Largest size of the message for a chunk: three integers of at most ten bytes, with their tags.
const MAX_ENTRY: u64 = 33;
/// Bytes after a footer in which its postscript is sought: there is padding up to the next block.
const MAX_PADDING: u64 = 4 * BLOCK;

/// The footer's place, if the chunk is a postscript. `bytes` begins with the chunk, and has its data,
/// which is sound.
pub(crate) fn postscript(chunk: &Chunk, bytes: &[u8]) -> Option<u64> {
    const MAX_DATA: u64 = 128;
    let is_place = chunk.layout.begin.is_multiple_of(BLOCK) && chunk.kind == kind::SIMPLE;
    if !is_place || chunk.records != COPIES as u64 || chunk.data > MAX_DATA {
        return None;
    }
    let data = chunk.copied(bytes, 0..chunk.data);
    // It is not compressed. Its sizes are three bytes.
    let [0, 3, sizes @ ..] = &data[..] else { return None };
    let (sizes, values) = sizes.split_first_chunk::<COPIES>()?;
    let size = usize::from(sizes[0]);
    let mut copies = values.chunks(size.max(1));
    let first = copies.next()?;
    if sizes.iter().any(|other| *other != sizes[0]) || values.len() != COPIES * size {
        return None;
    }
    let (mut footer, mut magic, mut rest) = (None, None, first);
    while let Some(tag) = varint::take(&mut rest) {
        match tag {
            0x08 => footer = Some(varint::take(&mut rest)?),
            0x10 => magic = Some(varint::take(&mut rest)?),
            _ => return None,
        }
    }
    let is_same = copies.all(|copy| copy == first);
    footer.filter(|_| is_same && rest.is_empty() && magic == Some(MAGIC))
}

/// Whether records of these sizes can be those of a footer. The first describes the others.
pub(crate) fn has_sizes(mut sizes: impl Iterator<Item = u64>) -> bool {
    sizes.next().is_some_and(|size| size <= MAX_DESCRIPTION) && sizes.all(|size| size <= MAX_ENTRY)
}

/// Whether a record describes the footer of a file with this number of chunks.
pub(crate) fn describes(mut record: &[u8], chunks: u64) -> bool {
    let message = &mut record;
    let is_only = varint::take(message) == Some(0x0a)
        && varint::take(message).is_some_and(|size| size == message.len() as u64);
    is_only && is_description(message, chunks).is_some_and(|is| is)
}

/// Whether the message is complete, and has the number of chunks. `None` if it is another one.
fn is_description(mut message: &[u8], chunks: u64) -> Option<bool> {
    let (mut version, mut found, mut records) = (None, None, None);
    while !message.is_empty() {
        let tag = varint::take(&mut message)?;
        let value = varint::take(&mut message)?;
        match tag {
            0x08 => version = Some(value),
            0x10 => found = Some(value),
            0x18 => records = Some(value),
            // The writer's options, as text.
            0x22 => message = message.get(usize::try_from(value).ok()?..)?,
            _ => return None,
        }
    }
    Some(version.is_some() && records.is_some() && found == Some(chunks))
}

/// What follows a chunk that looks like a footer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Follows {
    /// The postscript: it is the footer.
    Postscript,
    /// Something else: the chunk has records.
    Other,
    /// This many bytes are needed, from the chunk's start on.
    Cut(usize),
    /// A damaged chunk.
    Damage,
}

/// Looks for the postscript after a chunk that looks like a footer. `bytes` begins with the chunk.
pub(crate) fn after(footer: &Chunk, bytes: &[u8]) -> Follows {
    let begin = footer.layout.begin;
    let from = footer.bytes_with_padding();
    let mut at = from;
    while at - from <= MAX_PADDING {
        let rest = bytes.get(at as usize..).unwrap_or_default();
        let chunk = match Chunk::read(Layout { begin: begin + at }, rest) {
            Ok(chunk) => chunk,
            Err(NoHeader::Cut(size)) => return Follows::Cut(at as usize + size),
            Err(NoHeader::Damaged) => return Follows::Damage,
        };
        if chunk.kind == kind::PADDING {
            at += chunk.bytes_with_padding();
            continue;
        }
        if chunk.kind != kind::SIMPLE || chunk.bytes() > BLOCK {
            return Follows::Other;
        }
        let size = chunk.bytes() as usize;
        if rest.len() < size {
            return Follows::Cut(at as usize + size);
        }
        if !chunk.is_sound(rest) {
            return Follows::Damage;
        }
        // Files that follow each other begin at blocks, and count from their own starts.
        let is_here = |place: u64| place <= begin && (begin - place).is_multiple_of(BLOCK);
        return match postscript(&chunk, rest) {
            Some(place) if is_here(place) => Follows::Postscript,
            _ => Follows::Other,
        };
    }
    Follows::Other
}
