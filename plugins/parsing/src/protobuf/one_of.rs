//! A oneof whose cases are messages: which case is set, and where its message is.

use super::{MessageReader, Pieces, WireError};

/// The last oneof that was read. One value serves many records, so that its memory is reused.
#[derive(Debug, Default)]
pub struct OneOf {
    /// Number of the field that is set; 0 if none is.
    pub case: u32,
    /// The message in that field.
    pub message: Pieces,
}

impl OneOf {
    /// Reads a message that consists of a oneof with these cases. If several cases occur, the last
    /// one counts; if the same case occurs again, its messages are merged.
    ///
    /// # Errors
    /// The message is invalid, or a case is not a message.
    #[inline]
    pub fn read(&mut self, bytes: &[u8], owner: &Pieces, cases: &[u32]) -> Result<(), WireError> {
        self.case = 0;
        self.message.clear();
        let mut reader = MessageReader::over(bytes, owner);
        while let Some(field) = reader.next()? {
            if !cases.contains(&field.number) {
                continue;
            }
            if self.case != field.number {
                self.case = field.number;
                self.message.clear();
            }
            self.message.push(field.bytes()?);
        }
        Ok(())
    }
}
