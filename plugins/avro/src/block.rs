//! Blocks: their codecs, a call of the decoder, and the output that it may produce.

use pipemill_plugin::Progress;

use crate::header::{SYNC, Sync};
use crate::layout::Layout;

/// Size of the smallest block in bytes: two varints and the sync marker.
pub(crate) const MIN_BLOCK: usize = 2 + SYNC;
/// Largest size of two varints in bytes.
pub(crate) const MAX_HEAD: usize = 20;

/// The content of a file's header.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) codec: BlockCodec,
    pub(crate) sync: Sync,
    pub(crate) layout: Layout,
}

/// The compression of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockCodec {
    /// No compression.
    Null,
    Deflate,
    /// Snappy, and the CRC-32 of the bytes before compression.
    Snappy,
    Zstd,
}

impl BlockCodec {
    const ALL: [Self; 4] = [Self::Null, Self::Deflate, Self::Snappy, Self::Zstd];

    /// Its name in a header.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Deflate => "deflate",
            Self::Snappy => "snappy",
            Self::Zstd => "zstandard",
        }
    }
}

/// The codec of this name. The error is a message for the operator.
pub(crate) fn codec(name: &[u8]) -> Result<BlockCodec, String> {
    let known = BlockCodec::ALL.into_iter().find(|codec| codec.name().as_bytes() == name);
    known.ok_or_else(|| {
        format!(
            "the file's codec is \"{}\", which is not supported; write it with null, deflate, snappy \
             or zstandard",
            name.escape_ascii()
        )
    })
}

/// The action of [`Avro::decode`](crate::Avro) after a step.
#[derive(Debug)]
pub(crate) enum Next {
    /// The next step.
    GoOn,
    /// It returns this.
    Return(Progress),
}

/// A call of `decode`.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) chunk: &'a [u8],
    pub(crate) end: bool,
    /// Number of bytes of the chunk that are finished.
    pub(crate) at: usize,
    /// Number of bytes of output so far, approximately: payload and spans.
    pub(crate) spent: usize,
    /// Whether records were emitted.
    pub(crate) emitted: bool,
}

impl<'a> Call<'a> {
    pub(crate) fn new(chunk: &'a [u8], end: bool) -> Self {
        Self { chunk, end, at: 0, spent: 0, emitted: false }
    }
    /// The bytes of the chunk that are not finished.
    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.chunk[self.at..]
    }
    /// Whether the call may end and ask for another one with the same bytes.
    pub(crate) fn has_progress(&self) -> bool {
        self.emitted || self.at > 0
    }
    /// The result if more bytes are needed: this many after the finished ones.
    pub(crate) fn wants(&self, bytes: usize) -> Next {
        Next::Return(Progress::consumed(self.at).and_wants(bytes))
    }
}

/// Approximate number of bytes of output that calls and parts of blocks may produce.
/// `limits.output` is at least `max_record`, and usually much more.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    /// A call ends after the record or the part of a block that reaches this.
    pub(crate) call: usize,
    /// A part of a block ends after the record that reaches this.
    pub(crate) part_output: usize,
    /// Largest part of a block that is decompressed at a time, unless a record is larger.
    part: usize,
}

impl Budget {
    pub(crate) fn new(max_record: u64) -> Self {
        // The value fits: it is at most 4 MiB.
        let call = max_record.clamp(1 << 10, 4 << 20) as usize;
        Self { call, part_output: call / 4, part: call / 16 }
    }
    /// Size of the parts of a block of `size` compressed bytes. The size must not depend on the
    /// split. It is not much more than the block's, because the host clears that much memory.
    pub(crate) fn part(&self, size: u64) -> usize {
        let size = size.saturating_mul(4).clamp(16 << 10, 256 << 10);
        // The value fits: it is at most 256 KiB.
        (size as usize).min(self.part)
    }
}
