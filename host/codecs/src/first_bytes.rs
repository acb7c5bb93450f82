//! The first inflated bytes after a seek point, which are compared with the point before the first
//! of them is returned.

use std::io::{self, ErrorKind};

use crate::SeekPoint;

/// Reads and compares the first bytes after a point.
pub(crate) struct FirstBytes {
    point: SeekPoint,
    /// Bytes as many as the point's checksum covers.
    bytes: Vec<u8>,
    /// Number of bytes that were read.
    filled: usize,
    /// Whether the bytes are those of the point.
    is_right: bool,
    /// Number of bytes that were returned.
    sent: usize,
    /// Why they are other bytes.
    wrong: Option<String>,
}

impl FirstBytes {
    /// The bytes after this point.
    pub(crate) fn after(point: &SeekPoint) -> Box<Self> {
        // The window was restored already.
        let point = SeekPoint { block: None, ..point.clone() };
        let bytes = vec![0; point.checked as usize];
        Box::new(Self { point, bytes, filled: 0, is_right: false, sent: 0, wrong: None })
    }

    /// Whether all of the bytes were returned.
    pub(crate) fn is_done(&self) -> bool {
        self.is_right && self.sent == self.bytes.len()
    }

    /// Returns some of the bytes. `inflate` reads the bytes after those that it has read.
    pub(crate) fn read(
        &mut self,
        buf: &mut [u8],
        mut inflate: impl FnMut(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        while !self.is_right {
            if let Some(why) = &self.wrong {
                return Err(self.point.wrong(why));
            }
            match inflate(&mut self.bytes[self.filled..]) {
                Ok(count) => self.add(count),
                Err(why) => {
                    let is_wait =
                        matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted);
                    return Err(if is_wait { why } else { self.point.wrong(why) });
                }
            }
        }
        let rest = &self.bytes[self.sent..];
        let count = rest.len().min(buf.len());
        buf[..count].copy_from_slice(&rest[..count]);
        self.sent += count;
        Ok(count)
    }

    /// Some more bytes were read, or none at the end of the object. Compares them when all are
    /// there.
    fn add(&mut self, count: usize) {
        self.filled += count;
        let size = self.bytes.len();
        if count == 0 {
            let found = self.filled;
            self.wrong = Some(format!("it ends {found} bytes after it, expected {size} or more"));
        } else if self.filled == size {
            let (found, expected) = (crc32fast::hash(&self.bytes), self.point.crc);
            self.is_right = found == expected;
            if !self.is_right {
                self.wrong = Some(format!(
                    "the checksum of the {size} bytes after it is {found:#010x}, expected \
                     {expected:#010x}"
                ));
            }
        }
    }
}
