//! The end of a section of an object, where another worker may have gone on already.

use crate::StopReason;

/// How far a decoder came with the bytes that it was shown.
pub(crate) struct DecodedTo {
    /// Byte offset in the object of the first byte that it has not used.
    pub(crate) offset: u64,
    /// It could begin again there, after the object's first bytes of this number.
    pub(crate) restart: Option<u64>,
    /// Byte offset in the object up to which it has to be shown bytes before it gets further. Not
    /// known if the decoder was shown them.
    pub(crate) wants: u64,
}

/// Where the decoder of a section stops, and what it tells and asks on its way.
pub(crate) trait SectionEnd {
    /// The byte offset in the object up to which the decoder may be shown bytes now.
    fn limit(&self) -> u64;

    /// The decoder could begin again here, after the object's first `header` bytes.
    fn can_restart(&mut self, header: u64);

    /// The decoder was shown all bytes up to the limit. Returns whether the section is over; else
    /// the limit is a later one now.
    ///
    /// # Errors
    /// Nobody wants the section any more.
    fn reach(&mut self, decoded: &DecodedTo) -> Result<bool, StopReason>;

    /// The bytes after the limit belong to this section, too: the limit is another one now.
    fn go_beyond(&mut self);
}
