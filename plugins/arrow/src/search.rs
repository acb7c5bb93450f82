//! Searches for the next batch after damage, or from any place of an object.

use pipemill_plugin::Resync;

use crate::Limits;
use crate::message::{ALIGNMENT, BatchHeader, Framing, MARK, Message, MessageKind, Prefix};
use crate::stream::Stream;

/// Goes on to the next batch that fits the schema.
pub(crate) fn next_batch(stream: &Stream, limits: Limits, chunk: &[u8], end: bool) -> Resync {
    let missed = Resync { consumed: chunk.len(), found: false };
    let Some(Framing::Marked) = stream.framing() else { return missed };
    let mut from = 0;
    while let Some(found) = chunk[from..].windows(MARK.len()).position(|bytes| *bytes == MARK) {
        let at = from + found;
        match is_batch(stream, limits, &chunk[at..]) {
            Some(true) => return Resync { consumed: at, found: true },
            None if !end => return Resync { consumed: at, found: false },
            _ => from = at + 1,
        }
    }
    let kept = if end { 0 } else { MARK.len() - 1 };
    Resync { consumed: from.max(chunk.len().saturating_sub(kept)), found: false }
}

/// Whether a batch begins here that fits the schema. `None` if more bytes show it.
fn is_batch(stream: &Stream, limits: Limits, bytes: &[u8]) -> Option<bool> {
    let place = match Framing::Marked.read(bytes, limits.metadata) {
        Prefix::Cut(_) => return None,
        Prefix::Metadata(place) if place.len() % ALIGNMENT == 0 => place,
        _ => return Some(false),
    };
    // The first number is the place of a table, which is near.
    let root = bytes.get(place.start..)?.first_chunk().copied().map(u32::from_le_bytes);
    if root? as usize >= place.len() {
        return Some(false);
    }
    let metadata = bytes.get(place.clone())?;
    let Ok(message) = Message::read(metadata) else { return Some(false) };
    let size = message.body.saturating_add(place.end as u64);
    let fits = message.kind == MessageKind::Batch
        && size <= limits.max_record
        && stream
            .layout()
            .is_some_and(|layout| BatchHeader::read(&message.header, layout.size).is_ok());
    Some(fits)
}
