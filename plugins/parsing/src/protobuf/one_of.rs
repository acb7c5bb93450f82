//! A oneof whose cases are messages: which one is set, and where it lies.

use super::{Fault, Pieces, Reader};

/// What was read last. Kept for its memory.
#[derive(Debug, Default)]
pub struct OneOf {
    /// Number of the field that is set, 0 if none is.
    pub case: u32,
    /// The message that is its value.
    pub message: Pieces,
}

impl OneOf {
    /// Reads a message that consists of the oneof with these cases. The last one counts; the same one
    /// again is merged.
    #[inline]
    pub fn read(&mut self, bytes: &[u8], owner: &Pieces, cases: &[u32]) -> Result<(), Fault> {
        self.case = 0;
        self.message.clear();
        let mut reader = Reader::over(bytes, owner);
        while let Some(entry) = reader.next()? {
            if !cases.contains(&entry.number) {
                continue;
            }
            if self.case != entry.number {
                self.case = entry.number;
                self.message.clear();
            }
            self.message.push(entry.bytes()?);
        }
        Ok(())
    }
}
