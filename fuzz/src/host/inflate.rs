//! Decompression of objects: the result does not depend on the pieces in which an object comes, nor
//! on waits between them; data that the library reads as a whole is read. Reading from any seek
//! point gives the rest.

use std::io::{BufReader, Read};
use std::time::Duration;

use flate2::bufread::GzDecoder;
use pipemill_source::{Compression, Input, ReadOutcome, SeekPoints, SourceError};
use zstd::zstd_safe::{find_frame_compressed_size, get_frame_content_size};

/// Largest inflated object: it keeps a run short.
const MAX_BYTES: usize = 1 << 20;

/// The first byte selects the format, the next three the pieces.
pub(crate) fn inflate(bytes: &[u8]) {
    let Some(([format, pieces @ ..], object)) = bytes.split_first_chunk::<4>() else { return };
    let format = if format & 1 == 0 { Compression::Gzip } else { Compression::Zstd };
    let input = |pieces| format.inflate("object", Box::new(Pieces::of(object, pieces)));
    let Some((whole, error)) = read(input([255; 3])) else { return };
    let size = whole.len();
    let points = SeekPoints::every(0, usize::MAX);
    let mut split = input(*pieces);
    split.set_seek_points(&points);
    let Some((split, split_error)) = read(split) else {
        panic!("{size} bytes, then {error:?}; in pieces of {pieces:?} more");
    };
    assert!(
        whole == split && text(&error) == text(&split_error),
        "{size} bytes, then {error:?}; in pieces of {pieces:?} {} bytes, then {split_error:?}",
        split.len()
    );
    for point in points.all() {
        let rest = Pieces::of(&object[point.compressed() as usize..], *pieces);
        let rest = read(format.inflate_from("object", Box::new(rest), Some(&point)));
        let (rest, rest_error) = rest.expect("it is less than all");
        assert!(rest == whole[point.inflated() as usize..], "{} bytes: {rest_error:?}", rest.len());
        assert_eq!(text(&error), text(&rest_error));
    }
    let expected = by_the_library(format, object);
    let library = expected.as_ref().map(Vec::len);
    assert!(
        error.is_none().then_some(whole) == expected,
        "{size} bytes, then {error:?}; the library has {library:?} bytes"
    );
}

/// The whole text of an error.
fn text(error: &Option<SourceError>) -> Option<(&str, &str)> {
    error.as_ref().map(|error| (&*error.message, &*error.remedy))
}

/// The object as the library inflates it, if it does and it is not too large.
fn by_the_library(format: Compression, object: &[u8]) -> Option<Vec<u8>> {
    // Empty input is not a gzip member, but it is a valid sequence of frames.
    if format == Compression::Gzip && object.is_empty() {
        return None;
    }
    let mut bytes = Vec::new();
    let mut rest = object;
    while !rest.is_empty() {
        rest = match format {
            Compression::Gzip => read_member(rest, &mut bytes)?,
            _ => {
                let (frame, after) = rest.split_at(find_frame_compressed_size(rest).ok()?);
                read_frame(frame, &mut bytes)?;
                after
            }
        };
    }
    (bytes.len() <= MAX_BYTES).then_some(bytes)
}

/// Appends the content of the first gzip member. Returns the bytes after it, but not zeros up to
/// the end.
fn read_member<'a>(object: &'a [u8], bytes: &mut Vec<u8>) -> Option<&'a [u8]> {
    let mut decoder = GzDecoder::new(object).take(MAX_BYTES as u64 + 1);
    decoder.read_to_end(bytes).ok()?;
    let rest = decoder.into_inner().into_inner();
    let is_padding = rest.iter().all(|byte| *byte == 0);
    Some(if is_padding { &[] } else { rest })
}

/// Appends the content of a Zstandard frame. The library gets one byte at a time, because it
/// refuses other damage if it has the whole frame. It may then accept a frame whose content is
/// smaller than its header says.
fn read_frame(frame: &[u8], bytes: &mut Vec<u8>) -> Option<()> {
    let before = bytes.len();
    let slow = BufReader::with_capacity(1, frame);
    let mut decoder = zstd::Decoder::with_buffer(slow).ok()?.take(MAX_BYTES as u64 + 1);
    decoder.read_to_end(bytes).ok()?;
    let size = (bytes.len() - before) as u64;
    get_frame_content_size(frame).ok()?.is_none_or(|expected| expected == size).then_some(())
}

/// The inflated bytes, and the error after them. `None` if they are too many.
pub(super) fn read(mut input: Box<dyn Input>) -> Option<(Vec<u8>, Option<SourceError>)> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        match input.read(&mut buffer, None) {
            Ok(ReadOutcome::Bytes(count)) => bytes.extend_from_slice(&buffer[..count]),
            Ok(ReadOutcome::Nothing) => {}
            Ok(ReadOutcome::End) => return Some((bytes, None)),
            Ok(ReadOutcome::Stopped) => unreachable!("nobody asked to stop"),
            Err(error) => {
                assert!(!error.message.is_empty() && !error.remedy.is_empty(), "{error:?}");
                return Some((bytes, Some(error)));
            }
        }
        if bytes.len() > MAX_BYTES {
            return None;
        }
    }
}

/// An object that comes in pieces, with three alternating sizes. A size of 0 is a read without
/// result, and 255 is the rest.
pub(super) struct Pieces {
    object: Vec<u8>,
    at: usize,
    sizes: [u8; 3],
    turn: usize,
}

impl Pieces {
    pub(super) fn of(object: &[u8], sizes: [u8; 3]) -> Self {
        Self { object: object.to_vec(), at: 0, sizes, turn: 0 }
    }
}

impl Input for Pieces {
    fn read(&mut self, buf: &mut [u8], _: Option<Duration>) -> Result<ReadOutcome, SourceError> {
        let rest = &self.object[self.at..];
        if rest.is_empty() {
            return Ok(ReadOutcome::End);
        }
        self.turn += 1;
        let size = match self.sizes[self.turn % self.sizes.len()] {
            // The waits must end.
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
