//! A block of a chunk that is decompressed part by part.

use std::ops::Range;

use pipemill_codecs::{BlockReader, Codec};

/// A block that a decoder has partly decompressed. It is dropped when the decoder begins another
/// one, or ends a call without asking for more of the chunk.
pub(crate) struct OpenBlock {
    pub(crate) codec: Codec,
    /// The ranges of the block in the chunk: in order, and apart.
    pub(crate) pieces: Vec<Range<usize>>,
    pub(crate) reader: BlockReader,
}

impl OpenBlock {
    /// The same block, in the chunk without its first `consumed` bytes. `None` if it begins before
    /// that.
    pub(crate) fn after(mut self, consumed: usize) -> Option<Self> {
        for piece in &mut self.pieces {
            let start = piece.start.checked_sub(consumed)?;
            *piece = start..piece.end - consumed;
        }
        Some(self)
    }
}
