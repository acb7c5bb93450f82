//! Inflates gzip, zlib and zstd while an object is read.

use std::io::{self, BufReader, ErrorKind, Read};
use std::ops::Range;
use std::time::Duration;

use pipemill_codecs::{
    Codec, GzipMembers, SeekPoint, SeekPoints, ZSTD_WINDOW_BYTES, ZlibStreams, ZstdFrames,
    is_wrong_seek_point,
};
use serde::{Deserialize, Serialize};

use crate::skip::skip;
use crate::{Input, ReadOutcome, SourceError};

/// How an object is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Detected by the ending of the name: `.gz`, `.gzip`, `.tgz`, `.zz`, `.zst`, `.zstd` and
    /// `.tzst`, in upper or lower case.
    #[default]
    Auto,
    /// Not compressed.
    None,
    /// gzip, one member or several.
    Gzip,
    /// zlib, one stream or several.
    Zlib,
    /// Zstandard, one frame or several.
    Zstd,
}

impl std::fmt::Display for Compression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Zlib => "zlib",
            Self::Zstd => "zstd",
        })
    }
}

/// Number of compressed bytes that are read at once.
const BUFFER_SIZE: usize = 128 << 10;
/// Bytes that a decompressor takes in addition to its window: tables, an input block and an output
/// block; with seek points, the bytes that are compared and the tables that compress a window.
const DECOMPRESSOR_BYTES: u64 = 1 << 20;

impl Compression {
    /// The compression of an object of this name: `Auto` if the ending of the name does not say it.
    pub(super) fn resolve(self, name: &str) -> Self {
        match self {
            Self::Auto if has_ending(name, &[".gz", ".gzip", ".tgz"]) => Self::Gzip,
            Self::Auto if has_ending(name, &[".zz"]) => Self::Zlib,
            Self::Auto if has_ending(name, &[".zst", ".zstd", ".tzst"]) => Self::Zstd,
            other => other,
        }
    }

    /// Whether an object of this name is read as it is stored. Only its name is looked at.
    pub fn is_plain_name(self, name: &str) -> bool {
        self.resolve(name).is_plain()
    }

    /// Whether a resolved compression leaves the bytes as they are stored.
    pub(super) fn is_plain(self) -> bool {
        matches!(self, Self::Auto | Self::None)
    }

    /// Upper limit of the memory in bytes for inflating the object of this name; without a name,
    /// for any object.
    pub fn memory(self, name: Option<&str>) -> u64 {
        let small = BUFFER_SIZE as u64 + DECOMPRESSOR_BYTES;
        match (name.map_or(self, |name| self.resolve(name)), name) {
            (Self::None, _) | (Self::Auto, Some(_)) => 0,
            (Self::Gzip | Self::Zlib, _) => small,
            (Self::Zstd, _) | (Self::Auto, None) => small + ZSTD_WINDOW_BYTES,
        }
    }

    /// Wraps an input so that its inflated bytes are read. `Auto` inflates according to `name`.
    pub fn inflate(self, name: &str, input: Box<dyn Input>) -> Box<dyn Input> {
        self.inflate_from(name, input, None)
    }

    /// As [`inflate`](Self::inflate), from a seek point on: `input` begins at the compressed byte
    /// of the point, and the first byte read is the inflated byte of the point. If the name does
    /// not say how the object is compressed, the point does.
    ///
    /// Reading returns an error, and no byte, if the point is not one of this object in its present
    /// state.
    pub fn inflate_from(
        self,
        name: &str,
        input: Box<dyn Input>,
        point: Option<&SeekPoint>,
    ) -> Box<dyn Input> {
        let kind = match (self.resolve(name), point) {
            (Self::Auto, Some(point)) => Self::of(point.codec()),
            (Self::None, Some(_)) => {
                let why = "has a seek point, but it is read as an object that is not compressed";
                let remedy = "set the `compression` with which its index was made";
                return Box::new(Failed(SourceError::new(name, why, remedy)));
            }
            (kind, _) => kind,
        };
        if kind.is_plain() {
            return input;
        }
        let compressed = Compressed { input, timeout: None, stopped: false, failed: None };
        let input = BufReader::with_capacity(BUFFER_SIZE, compressed);
        match (kind, point) {
            (Self::Gzip, None) => inflated(name, kind, Ok(GzipMembers::new(input))),
            (Self::Gzip, Some(point)) => inflated(name, kind, GzipMembers::at(input, point)),
            (Self::Zlib, None) => inflated(name, kind, Ok(ZlibStreams::new(input))),
            (Self::Zlib, Some(point)) => inflated(name, kind, ZlibStreams::at(input, point)),
            (_, None) => inflated(name, kind, ZstdFrames::new(input)),
            (_, Some(point)) => inflated(name, kind, ZstdFrames::at(input, point)),
        }
    }

    /// The compression of seek points of this codec.
    fn of(codec: Codec) -> Self {
        match codec {
            Codec::Zlib => Self::Zlib,
            Codec::Zstd => Self::Zstd,
            _ => Self::Gzip,
        }
    }
}

fn inflated<D: Decompressor + 'static>(
    name: &str,
    kind: Compression,
    decompressor: io::Result<D>,
) -> Box<dyn Input> {
    let name = name.to_owned();
    match decompressor {
        Ok(decompressor) => Box::new(Inflated { name, kind, decompressor, points: None }),
        Err(error) if is_wrong_seek_point(&error) => {
            Box::new(Failed(wrong_seek_point(&name, &error)))
        }
        // Only zstd's can fail otherwise.
        Err(error) => Box::new(Failed(SourceError::io(name, "can't start zstd", &error))),
    }
}

/// The error for an object that can't be inflated from its seek point.
fn wrong_seek_point(name: &str, error: &io::Error) -> SourceError {
    let remedy = "the seek point is of another object, or of another state of this one: make its \
                  index again, or read it from its start";
    SourceError::new(name, error.to_string(), remedy)
}

fn has_ending(name: &str, endings: &[&str]) -> bool {
    let has = |ending: &&str| {
        let start = name.len().checked_sub(ending.len());
        start.is_some_and(|start| name.as_bytes()[start..].eq_ignore_ascii_case(ending.as_bytes()))
    };
    endings.iter().any(has)
}

/// The input of a decompressor. A read without result is `WouldBlock`: decompressors return this
/// error unchanged and can be called again.
struct Compressed {
    input: Box<dyn Input>,
    timeout: Option<Duration>,
    /// A read ended because a stop was requested.
    stopped: bool,
    failed: Option<SourceError>,
}

impl Read for Compressed {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.input.read(buf, self.timeout) {
            Ok(ReadOutcome::Bytes(count)) => Ok(count),
            Ok(ReadOutcome::End) => Ok(0),
            Ok(ReadOutcome::Nothing) => Err(ErrorKind::WouldBlock.into()),
            Ok(ReadOutcome::Stopped) => {
                self.stopped = true;
                Err(ErrorKind::WouldBlock.into())
            }
            Err(error) => {
                self.failed = Some(error);
                Err(ErrorKind::Other.into())
            }
        }
    }
}

/// A decompressor that gives access to its input. It returns no bytes only at the end of its input.
trait Decompressor: Read + Send {
    fn set_seek_points(&mut self, points: &SeekPoints);
    fn compressed(&self) -> &Compressed;
    fn compressed_mut(&mut self) -> &mut Compressed;
    /// Compressed bytes up to the end of what was read, or up to damage. The result does not depend
    /// on how the input is divided into reads.
    fn place(&self) -> u64;
}

impl Decompressor for GzipMembers<BufReader<Compressed>> {
    fn set_seek_points(&mut self, points: &SeekPoints) {
        self.set_seek_points(points);
    }
    fn compressed(&self) -> &Compressed {
        self.get_ref().get_ref()
    }
    fn compressed_mut(&mut self) -> &mut Compressed {
        self.get_mut().get_mut()
    }
    fn place(&self) -> u64 {
        self.consumed()
    }
}

impl Decompressor for ZlibStreams<BufReader<Compressed>> {
    fn set_seek_points(&mut self, points: &SeekPoints) {
        self.set_seek_points(points);
    }
    fn compressed(&self) -> &Compressed {
        self.get_ref().get_ref()
    }
    fn compressed_mut(&mut self) -> &mut Compressed {
        self.get_mut().get_mut()
    }
    fn place(&self) -> u64 {
        self.consumed()
    }
}

impl Decompressor for ZstdFrames<BufReader<Compressed>> {
    fn set_seek_points(&mut self, points: &SeekPoints) {
        self.set_seek_points(points);
    }
    fn compressed(&self) -> &Compressed {
        self.get_ref().get_ref()
    }
    fn compressed_mut(&mut self) -> &mut Compressed {
        self.get_mut().get_mut()
    }
    fn place(&self) -> u64 {
        self.consumed()
    }
}

/// The inflated bytes of an input.
struct Inflated<D> {
    name: String,
    /// gzip, zlib or zstd.
    kind: Compression,
    decompressor: D,
    /// The seek points of the object, if its reader wants them.
    points: Option<SeekPoints>,
}

impl<D: Decompressor> Input for Inflated<D> {
    fn is_inflated(&self) -> bool {
        true
    }

    fn check_unchanged(&self) -> Result<(), SourceError> {
        self.decompressor.compressed().input.check_unchanged()
    }

    fn set_seek_points(&mut self, points: &SeekPoints) {
        self.points = Some(points.clone());
        self.decompressor.set_seek_points(points);
    }

    fn at(&self, offset: u64) -> Option<Result<Box<dyn Input>, SourceError>> {
        let point = self.points.as_ref()?.before(offset);
        let point = point.as_deref();
        let stored = &self.decompressor.compressed().input;
        let stored = stored.at(point.map_or(0, SeekPoint::compressed))?;
        Some(stored.map(|stored| {
            let input = self.kind.inflate_from(&self.name, stored, point);
            skip(&self.name, input, point.map_or(0, SeekPoint::inflated), offset)
        }))
    }

    fn stored_range(&self, range: Range<u64>) -> Option<Result<Box<dyn Input>, SourceError>> {
        self.decompressor.compressed().input.range(range)
    }

    fn read(
        &mut self,
        buf: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<ReadOutcome, SourceError> {
        self.decompressor.compressed_mut().timeout = timeout;
        loop {
            match self.decompressor.read(buf) {
                Ok(0) => return Ok(ReadOutcome::End),
                Ok(count) => return Ok(ReadOutcome::Bytes(count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let stopped = self.decompressor.compressed().stopped;
                    return Ok(if stopped { ReadOutcome::Stopped } else { ReadOutcome::Nothing });
                }
                Err(error) => return Err(self.failure(&error)),
            }
        }
    }
}

impl<D: Decompressor> Inflated<D> {
    fn failure(&mut self, error: &io::Error) -> SourceError {
        if let Some(failed) = self.decompressor.compressed_mut().failed.take() {
            return failed;
        }
        if let Err(changed) = self.check_unchanged() {
            return changed;
        }
        if is_wrong_seek_point(error) {
            return wrong_seek_point(&self.name, error);
        }
        let (format, count) = (self.kind, self.decompressor.place());
        // zstd reports this only in the text of its error.
        if error.to_string().contains("too much memory") {
            let message =
                format!("its {format} data needs a window of more than 128 MiB to inflate");
            let remedy = "compress it again, without --ultra and with --long=27 at most";
            return SourceError::new(&self.name, message, remedy);
        }
        let (state, remedy) = if error.kind() == ErrorKind::UnexpectedEof {
            ("ends early", "it was cut short; get it again")
        } else {
            ("is corrupt", "get it again, or set `compression = \"none\"` if it is not compressed")
        };
        let message =
            format!("its {format} data {state} within the first {count} compressed bytes: {error}");
        SourceError::new(&self.name, message, remedy)
    }
}

/// An input that could not be created: each read returns the error.
pub(crate) struct Failed(pub(crate) SourceError);

impl Input for Failed {
    fn read(&mut self, _: &mut [u8], _: Option<Duration>) -> Result<ReadOutcome, SourceError> {
        Err(self.0.clone())
    }
}
