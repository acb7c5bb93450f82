//! A Brotli stream, from its bytes in memory.

use std::io::{self, Read};

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};

use super::Stream;

/// Inflates a Brotli stream.
pub(crate) struct Brotli {
    block: Vec<u8>,
    /// The next byte of `block`.
    at: usize,
    state: BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    written: usize,
    ran_out: bool,
}

impl Brotli {
    pub(crate) fn new(block: Vec<u8>) -> Self {
        let alloc = StandardAlloc::default;
        let state = BrotliState::new(alloc(), alloc(), alloc());
        Self { block, at: 0, state, written: 0, ran_out: false }
    }
}

impl Read for Brotli {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let (mut left, mut room, mut count) = (self.block.len() - self.at, buf.len(), 0);
        let result = BrotliDecompressStream(
            &mut left,
            &mut self.at,
            &self.block,
            &mut room,
            &mut count,
            buf,
            &mut self.written,
            &mut self.state,
        );
        match result {
            BrotliResult::ResultFailure => {
                let why = "the stream breaks the rules of its format";
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            BrotliResult::NeedsMoreInput => self.ran_out = count == 0,
            BrotliResult::NeedsMoreOutput | BrotliResult::ResultSuccess => {}
        }
        Ok(count)
    }
}

impl Stream for Brotli {
    fn unread(&self) -> u64 {
        (self.block.len() - self.at) as u64
    }

    fn ran_out(&self) -> bool {
        self.ran_out
    }
}
