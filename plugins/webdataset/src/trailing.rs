//! What follows the end mark of an archive and is no tar. Some writers fill up their last record of
//! blocks with what their memory had, and other readers of tar never look at it.
//!
//! It may also be another archive that is damaged. So it is ignored only if it is short and has no
//! header in it.

use pipemill_plugin::{Level, Progress, Records};

use crate::header::{BLOCK, Header};

/// Most bytes that are ignored: more than writers fill up. GNU tar's records have 10 KiB.
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
    // A block of zeros is no header: its checksum is wrong.
    let (blocks, _) = rest.as_chunks::<BLOCK>();
    if blocks.iter().any(|block| Header::read(block).is_ok()) {
        return None;
    }
    let message =
        format!("{} bytes after the end of the archive are no tar; they are ignored", rest.len());
    out.log(Level::Warn, &message);
    Some(Progress::consumed(chunk.len()))
}
