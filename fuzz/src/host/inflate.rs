//! Decompression of objects: the pieces in which an object comes, and waits between them, make no
//! difference; what the library reads as a whole is read.

use std::io::Read;
use std::time::Duration;

use flate2::bufread::MultiGzDecoder;
use pipemill_source::{Compression, Input, ReadOutcome, SourceError};

/// Largest inflated object: it keeps a run short.
const MAX_BYTES: usize = 1 << 20;

/// The first byte says which format, the next three in which pieces.
pub(crate) fn inflate(bytes: &[u8]) {
    let Some(([format, pieces @ ..], object)) = bytes.split_first_chunk::<4>() else { return };
    let format = if format & 1 == 0 { Compression::Gzip } else { Compression::Zstd };
    let Some(whole) = read(format, object, [255; 3]) else { return };
    let split = read(format, object, *pieces).expect("it is as large as before");
    assert_eq!(whole.is_ok(), split.is_ok(), "{whole:?}, then {split:?}");
    let expected = by_the_library(format, object);
    match (whole, split) {
        (Ok(whole), Ok(split)) => {
            assert_eq!(whole, split, "the whole, then pieces of {pieces:?}");
            assert!(
                expected.is_none_or(|expected| expected == whole),
                "the library reads other bytes"
            );
        }
        // Of a frame whose last block is empty, the library does not compare the size with the header.
        (Err(why), _) if format == Compression::Zstd && why.message.contains("corruption") => {}
        (whole, _) => assert_eq!(expected, None, "the library reads it; the source says {whole:?}"),
    }
}

/// The object as the library inflates it, if it does and it is not too large.
fn by_the_library(format: Compression, object: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = match format {
        Compression::Gzip => {
            MultiGzDecoder::new(object).take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)
        }
        _ => zstd::Decoder::with_buffer(object)
            .ok()?
            .take(MAX_BYTES as u64 + 1)
            .read_to_end(&mut bytes),
    };
    (read.is_ok() && bytes.len() <= MAX_BYTES).then_some(bytes)
}

/// Inflates; `None` if the result is too large.
fn read(
    format: Compression,
    object: &[u8],
    pieces: [u8; 3],
) -> Option<Result<Vec<u8>, SourceError>> {
    let pieces = Pieces { object: object.to_vec(), at: 0, sizes: pieces, turn: 0 };
    let mut input = format.inflate("object", Box::new(pieces));
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        match input.read(&mut buffer, None) {
            Ok(ReadOutcome::Bytes(count)) => bytes.extend_from_slice(&buffer[..count]),
            Ok(ReadOutcome::Nothing) => {}
            Ok(ReadOutcome::End) => return Some(Ok(bytes)),
            Ok(ReadOutcome::Stopped) => unreachable!("nobody asked to stop"),
            Err(error) => {
                assert!(!error.message.is_empty() && !error.remedy.is_empty(), "{error:?}");
                return Some(Err(error));
            }
        }
        if bytes.len() > MAX_BYTES {
            return None;
        }
    }
}

/// An object that comes in pieces, three sizes in turns. A size of 0 is a read without result, and
/// one of 255 is all the rest.
struct Pieces {
    object: Vec<u8>,
    at: usize,
    sizes: [u8; 3],
    turn: usize,
}

impl Input for Pieces {
    fn read(&mut self, buf: &mut [u8], _: Option<Duration>) -> Result<ReadOutcome, SourceError> {
        let rest = &self.object[self.at..];
        if rest.is_empty() {
            return Ok(ReadOutcome::End);
        }
        self.turn += 1;
        let size = match self.sizes[self.turn % self.sizes.len()] {
            // Not for ever.
            0 if self.turn < 1_000 => return Ok(ReadOutcome::Nothing),
            255 => rest.len(),
            size => usize::from(size).max(1),
        };
        let count = size.min(rest.len()).min(buf.len());
        buf[..count].copy_from_slice(&rest[..count]);
        self.at += count;
        Ok(ReadOutcome::Bytes(count))
    }
}
