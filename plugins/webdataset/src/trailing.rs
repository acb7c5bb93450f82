//! Bytes after the end mark of an archive that are not tar blocks. Some writers fill up their last
//! record of blocks with arbitrary memory, and other readers of tar never read it.
//!
//! They may also be another archive that is damaged. So they are ignored only if they are short and
//! contain no header.

use pipemill_plugin::{Level, Progress, Records};

use crate::header::BLOCK;
use crate::member::{NextMember, read_member};

/// Largest number of bytes that are ignored: more than writers fill up. GNU tar's records have 10
/// KiB.
const MAX_TRAILING: usize = 64 << 10;

/// The bytes from `at` on follow an end mark, and do not start with a header. Returns the progress
/// if they are ignored, or if it needs more bytes to know that. `None` if they are an error.
#[cold]
pub(crate) fn ignore(chunk: &[u8], at: usize, end: bool, out: &mut Records) -> Option<Progress> {
    let rest = &chunk[at..];
    if rest.len() > MAX_TRAILING {
        return None;
    }
    if !end {
        return Some(Progress::consumed(at).and_wants(MAX_TRAILING + 1));
    }
    if (at..chunk.len()).step_by(BLOCK).any(|at| is_header(chunk, at)) {
        return None;
    }
    let message =
        format!("{} bytes after the end of the archive are no tar; they are ignored", rest.len());
    out.log(Level::Warn, &message);
    Some(Progress::consumed(chunk.len()))
}

/// Whether there is a header at `at`, even one that can't be read.
fn is_header(chunk: &[u8], at: usize) -> bool {
    match read_member(chunk, at) {
        Ok(NextMember::Zeros) => false,
        Ok(NextMember::Cut { .. }) => chunk.len() - at >= BLOCK,
        Ok(NextMember::Member(_)) => true,
        Err(error) => !error.is_no_header(at),
    }
}
