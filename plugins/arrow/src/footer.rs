//! The footer of a file. It repeats the schema and says where the batches lie, which is not needed
//! to read them one after the other. It is skipped, but its length and the magic after it are
//! found: a file without them is cut short.

use pipemill_plugin::DecodeError;

use crate::{Call, MAGIC, Step};

/// Bytes of the footer's length, and of the magic after it.
const LENGTH: usize = 4;
const TAIL: usize = LENGTH + MAGIC.len();

/// A position in a footer.
#[derive(Debug, Default)]
pub(crate) struct Footer {
    /// Number of its bytes that are finished.
    skipped: u64,
}

impl Footer {
    /// Goes past the footer, up to its own length and the magic after it.
    pub(crate) fn skip(&mut self, call: &mut Call) -> Result<Step, DecodeError> {
        let rest = call.rest();
        let is_end = |tail: &[u8]| tail.ends_with(MAGIC);
        let ends = rest.windows(TAIL).enumerate().filter(|(_, tail)| is_end(tail));
        let end = ends
            .map(|(at, tail)| (at, tail.first_chunk().copied().map_or(-1, i32::from_le_bytes)))
            .find(|(at, length)| u64::try_from(*length) == Ok(self.skipped + *at as u64));
        if let Some((at, _)) = end {
            call.at += at + TAIL;
            return Ok(Step::GoOn);
        }
        let finished = rest.len().saturating_sub(TAIL - 1);
        call.at += finished;
        self.skipped += finished as u64;
        if call.end {
            let size = self.skipped + (rest.len() - finished) as u64;
            return Err(DecodeError::fatal(
                call.at,
                format!(
                    "expected the file's footer, then its length and `ARROW1`, found {size} bytes \
                     and the end; the file is cut short or damaged here"
                ),
            ));
        }
        Ok(call.wants(TAIL))
    }
}
