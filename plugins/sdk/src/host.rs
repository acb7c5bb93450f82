//! The functions of the host that a decoder may call, behind [`Records`](crate::Records).

use std::ops::Range;

use crate::Field;

/// The severity of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// For the author of the plugin.
    Debug,
    /// For the operator: nothing is wrong.
    Info,
    /// For the operator: something should be fixed.
    Warn,
    /// For the operator: something failed.
    Error,
}

/// The compression of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// DEFLATE without a header (RFC 1951).
    Deflate,
    /// DEFLATE in a zlib stream (RFC 1950).
    Zlib,
    /// One or more gzip members (RFC 1952).
    Gzip,
    /// One or more Zstandard frames (RFC 8878).
    Zstd,
    /// An LZ4 frame.
    Lz4,
    /// One Snappy block, without framing. It must fit into `limits.output`.
    Snappy,
    /// One LZ4 block, without framing. It must fit into `limits.output`. It does not say its size:
    /// compare it with the one that your format has.
    Lz4Block,
    /// A Brotli stream (RFC 7932).
    Brotli,
}

impl Codec {
    /// Name of this codec in the interface.
    pub fn word(self) -> &'static str {
        match self {
            Self::Deflate => "deflate",
            Self::Zlib => "zlib",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Lz4 => "lz4",
            Self::Snappy => "snappy",
            Self::Lz4Block => "lz4-block",
            Self::Brotli => "brotli",
        }
    }
}

/// The functions of the host that a decoder may call. Inside the sandbox they are the component's
/// imports; natively, a test implements them. `decoder.wit` explains each.
pub trait Host {
    /// Receives the fields of every record, once, before the first record. The default ignores
    /// them.
    fn set_schema(&mut self, fields: &[Field]) {
        let _ = fields;
    }
    /// Receives a fact about the object. The default ignores it.
    fn set_metadata(&mut self, key: &str, value: &str) {
        let _ = (key, value);
    }
    /// Receives this number of records.
    fn emit(&mut self, records: usize, spans: &[u64], payload: &[u8], starts: &[u32]);
    /// Whether the host is that of the sandbox, which takes columns, and from which blocks are read.
    /// All others get records one by one.
    #[doc(hidden)]
    fn is_sandbox(&self) -> bool {
        false
    }
    /// The same, also for the host of a decoder that another one wraps.
    #[doc(hidden)]
    fn is_in_sandbox(&self) -> bool {
        self.is_sandbox()
    }
    /// Receives bytes of the chunk that can't be decoded. Returns whether the decoder continues
    /// after them. The default returns false.
    fn bad(&mut self, bytes: Range<usize>, message: &str) -> bool {
        let _ = (bytes, message);
        false
    }
    /// Index of the first span whose CRC-32C differs from the expected one; `None` if all are as
    /// expected.
    fn check_crc32c(&mut self, spans: &[u64], expected: &[u32]) -> Option<usize>;
    /// Like [`check_crc32c`](Self::check_crc32c), with the CRC-32 of gzip.
    ///
    /// # Panics
    /// The default has no checksums.
    fn check_crc32(&mut self, spans: &[u64], expected: &[u32]) -> Option<usize> {
        let _ = (spans, expected);
        unimplemented!("this host has no CRC-32")
    }
    /// At most `max` decompressed bytes of a block, after the first `skip`, and whether they are its
    /// last.
    ///
    /// # Errors
    /// The error says what is wrong with the block.
    ///
    /// # Panics
    /// The default has no codecs.
    fn decompress(
        &mut self,
        codec: Codec,
        span: u64,
        skip: u64,
        max: usize,
    ) -> Result<(Vec<u8>, bool), String> {
        let _ = (codec, span, skip, max);
        unimplemented!("this host has no codecs")
    }
    /// Like [`decompress`](Self::decompress), of a block that lies in several pieces of the chunk. The
    /// bytes do not become a part of the payload.
    ///
    /// # Errors
    /// The error says what is wrong with the block.
    ///
    /// # Panics
    /// The default has no codecs.
    fn read_pieces(
        &mut self,
        codec: Codec,
        pieces: &[u64],
        skip: u64,
        max: usize,
    ) -> Result<(Vec<u8>, bool), String> {
        let _ = (codec, pieces, skip, max);
        unimplemented!("this host has no codecs")
    }
    /// Writes a line to the host's log, for the operator.
    fn log(&mut self, level: Level, message: &str);
}
