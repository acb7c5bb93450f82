//! Looks for the first place in a section that looks like the start of a record.

use std::sync::Arc;
use std::time::Duration;

use pipemill_decode::{Bytes, DecodeOutcome, Stream};
use pipemill_source::{Input, Object, ReadOutcome};

use super::sections::SectionPart;
use crate::pump::object::{Begin, Decoder};
use crate::{Resume, StopReason};

/// Bytes that are read at a time.
const READ_BYTES: usize = 64 << 10;
/// How often a wait for bytes is interrupted to see whether anybody wants the section.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The place at which decoding of a section begins: this byte offset, after the first `header`
/// bytes of the object. The number of the record there is not known, so its records count from 0.
pub(super) fn inside(header: u32, offset: u64, schema: Option<String>) -> Resume {
    let mut resume = Resume { schema, ..Resume::at_start() };
    (resume.position.header, resume.position.offset) = (header, offset);
    resume
}

/// The byte offset of the first place at or after `from` that looks like the start of a record, if
/// it is within the next `most` bytes. The decoder is shown no other bytes. So the place is not
/// beyond the one that the search in the next section finds.
///
/// # Errors
/// Nobody wants the section any more.
pub(super) fn find_start(
    decoder: &mut Decoder<'_>,
    object: &Object,
    part: &SectionPart,
    from: u64,
    schema: Option<&str>,
    most: usize,
) -> Result<Option<u64>, StopReason> {
    let resume = inside(part.header.len() as u32, from, schema.map(str::to_owned));
    let Ok(mut stream) = decoder.stream(object, &Begin::new(Some(resume), None)) else {
        return Ok(None);
    };
    if !sees_header(&mut stream, &part.header) {
        return Ok(None);
    }
    let (mut input, mut chunk) = (part.input(), Vec::new());
    let (mut passed, mut is_end) = (0, false);
    loop {
        let len = chunk.len();
        chunk.resize(len + READ_BYTES.min(most - passed - len), 0);
        let outcome = input.read(&mut chunk[len..], Some(POLL_INTERVAL));
        let read = match outcome {
            Ok(ReadOutcome::Bytes(read)) => read,
            Ok(ReadOutcome::Nothing) => 0,
            Ok(ReadOutcome::Stopped) => return Err(StopReason::Stopped),
            Ok(ReadOutcome::End) => {
                is_end = true;
                0
            }
            // The search in the section before gives the same error.
            Err(_) => return Ok(None),
        };
        chunk.truncate(len + read);
        if read == 0 && !is_end {
            continue;
        }
        // The decoder has to decide with these bytes.
        is_end |= passed + chunk.len() >= most;
        let bytes = Arc::new(std::mem::take(&mut chunk));
        let shown: Bytes = bytes.clone();
        let Ok((count, is_found)) = stream.resync(&shown, 0..bytes.len(), is_end) else {
            return Ok(None);
        };
        drop(shown);
        passed += count;
        if is_found {
            decoder.close(stream);
            return Ok(Some(from + passed as u64));
        }
        chunk = Arc::into_inner(bytes).unwrap_or_default();
        chunk.drain(..count);
        if is_end {
            return Ok(None);
        }
    }
}

/// Shows the stream the bytes at the start of the object. Returns whether it has used all of them.
fn sees_header(stream: &mut Stream, header: &Arc<Vec<u8>>) -> bool {
    let (bytes, mut at): (Bytes, _) = (header.clone(), 0);
    while at < header.len() {
        match stream.decode(&bytes, at..header.len(), false, 0) {
            Ok(DecodeOutcome::Progress { consumed, .. }) if consumed > 0 => at += consumed,
            _ => return false,
        }
    }
    true
}
