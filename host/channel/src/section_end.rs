//! The end of a section of an object, where another worker may have gone on already.

use super::StopReason;

/// Where the decoder of a section stops, and what it tells and asks on its way.
pub(super) trait SectionEnd {
    /// The byte offset in the object up to which the decoder may be shown bytes now.
    fn limit(&self) -> u64;

    /// The decoder could begin again here, after the object's first `header` bytes.
    fn can_restart(&mut self, header: u64);

    /// The decoder was shown all bytes up to the limit. `restart`: it has used all of them, and could
    /// begin again at the limit, after a header of this many bytes. Returns whether the section is
    /// over; else the limit is another one now.
    ///
    /// # Errors
    /// Nobody wants the section any more.
    fn reach(&mut self, restart: Option<u64>) -> Result<bool, StopReason>;

    /// The bytes after the limit belong to this section, too: the limit is another one now.
    fn go_beyond(&mut self);
}
