//! A piece of an object's bytes, as a request gives it to the reader.

use bytes::{Buf, Bytes};
use tokio::sync::mpsc::UnboundedSender;

use super::checksum::Hasher;
use super::error::RequestError;
use crate::cache::{CachedBytes, NotInCache};

/// Sends the frames of a part, in their order. An error is always the last item.
pub(super) type FrameSender = UnboundedSender<Result<Frame, RequestError>>;

/// A piece of an object's bytes.
pub(super) enum Frame {
    /// A piece of a response.
    Fetched(Bytes),
    /// A piece of a file of the cache.
    Cached(Box<CachedBytes>),
}

impl Frame {
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Fetched(bytes) => bytes.is_empty(),
            Self::Cached(bytes) => bytes.is_empty(),
        }
    }

    /// Reads into `buf`, and returns the number of bytes. It is 0 only if `buf` or the frame is
    /// empty. The hasher gets the same bytes.
    pub(super) fn read(
        &mut self,
        buf: &mut [u8],
        mut hasher: Option<&mut Hasher>,
    ) -> Result<usize, NotInCache> {
        let mut taken = |bytes: &[u8], sums: &[u64]| {
            if let Some(hasher) = &mut hasher {
                hasher.update_pages(bytes, sums);
            }
        };
        match self {
            Self::Fetched(bytes) => {
                let count = bytes.len().min(buf.len());
                bytes.copy_to_slice(&mut buf[..count]);
                taken(&buf[..count], &[]);
                Ok(count)
            }
            Self::Cached(bytes) => bytes.read(buf, taken),
        }
    }
}

impl Default for Frame {
    fn default() -> Self {
        Self::Fetched(Bytes::new())
    }
}

impl From<Bytes> for Frame {
    fn from(bytes: Bytes) -> Self {
        Self::Fetched(bytes)
    }
}
