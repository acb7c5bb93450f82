//! The end of a section of an object, where another worker may have begun already.

use pipemill_source::Block;

use crate::StopReason;

/// How far a decoder has come with the bytes that it was shown.
pub(crate) struct DecodedTo {
    /// Byte offset in the object of the first byte that it has not used.
    pub(crate) offset: u64,
    /// Number of the object's first bytes after which the decoder could begin again there. `None`
    /// if it can't.
    pub(crate) restart: Option<u64>,
    /// Byte offset in the object up to which the decoder needs bytes to get further. Unknown if it
    /// was shown them already.
    pub(crate) wants: u64,
}

/// Decides where the decoder of a section stops, from what the decoder reports.
pub(crate) trait SectionEnd {
    /// The byte offset in the object up to which the decoder may be shown bytes now.
    fn limit(&self) -> u64;

    /// Notes that the decoder could begin again here, after the object's first `header` bytes.
    fn can_restart(&mut self, header: u64);

    /// Called when the decoder was shown all bytes up to the limit. Returns whether the section is
    /// over. Otherwise the limit has moved on.
    ///
    /// # Errors
    /// Nobody wants the section any more.
    fn reach(&mut self, decoded: &DecodedTo) -> Result<bool, StopReason>;

    /// Moves the limit: the bytes after it belong to this section, too.
    ///
    /// # Errors
    /// As those of [`reach`](Self::reach).
    fn go_beyond(&mut self) -> Result<(), StopReason>;
}

/// Bytes after a block that its decoder is shown at least, if it needs any to see that the last
/// record is whole.
const MIN_BEYOND: u64 = 4 << 10;

/// The end of a block.
pub(crate) struct BlockEnd {
    end: u64,
    /// The byte offset up to which the decoder may be shown bytes.
    limit: u64,
}

impl BlockEnd {
    /// The end of a block; `None` if it is the last one of its object.
    pub(crate) fn of(block: Block) -> Option<Self> {
        block.end.map(|end| Self { end, limit: end })
    }
}

impl SectionEnd for BlockEnd {
    fn limit(&self) -> u64 {
        self.limit
    }

    fn can_restart(&mut self, _: u64) {}

    fn reach(&mut self, decoded: &DecodedTo) -> Result<bool, StopReason> {
        if decoded.offset >= self.end {
            return Ok(true);
        }
        self.limit = decoded.wants.max(self.limit.saturating_add(MIN_BEYOND));
        Ok(false)
    }

    fn go_beyond(&mut self) -> Result<(), StopReason> {
        self.limit = self.limit.saturating_add(MIN_BEYOND);
        Ok(())
    }
}
