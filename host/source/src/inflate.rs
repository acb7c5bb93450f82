//! Inflating gzip and zstd on the way.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::time::Duration;

use flate2::bufread::MultiGzDecoder;

use super::{Input, ReadOutcome, SourceError};

/// How an object is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// As its name says: `.gz` and `.zst`.
    #[default]
    Auto,
    /// Not at all.
    None,
    /// gzip, one member or several.
    Gzip,
    /// Zstandard, one frame or several.
    Zstd,
}

/// Compressed bytes that are read at a time.
const BUFFER: usize = 128 << 10;

impl Compression {
    /// What holds for an object of this name: `Auto` if the name does not say it.
    pub(super) fn of(self, name: &str) -> Self {
        match self {
            Self::Auto if name.ends_with(".gz") => Self::Gzip,
            Self::Auto if name.ends_with(".zst") => Self::Zstd,
            other => other,
        }
    }

    /// The object's inflated bytes.
    pub(super) fn inflate(self, name: &str, input: Box<dyn Input>) -> Box<dyn Input> {
        let kind = self.of(name);
        let compressed = Compressed { input, wait: None, stopped: false, failed: None, count: 0 };
        let compressed = BufReader::with_capacity(BUFFER, compressed);
        let name = name.to_owned();
        match kind {
            Self::Gzip => {
                Box::new(Inflated { name, kind: "gzip", decoder: MultiGzDecoder::new(compressed) })
            }
            Self::Zstd => match zstd::stream::read::Decoder::with_buffer(compressed) {
                Ok(decoder) => Box::new(Inflated { name, kind: "zstd", decoder }),
                Err(error) => Box::new(Refused(SourceError::io(name, "can't start zstd", &error))),
            },
            Self::Auto | Self::None => compressed.into_inner().input,
        }
    }
}

/// An input that a decompressor reads from. Waiting without result is `WouldBlock`, which
/// decompressors hand through and can be asked again after.
struct Compressed {
    input: Box<dyn Input>,
    wait: Option<Duration>,
    stopped: bool,
    failed: Option<SourceError>,
    count: u64,
}

impl Read for Compressed {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.input.read(buf, self.wait) {
            Ok(ReadOutcome::Bytes(count)) => {
                self.count += count as u64;
                Ok(count)
            }
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

/// A decompressor and its way back to what it reads from.
trait Decoder: Read + Send {
    fn source(&mut self) -> &mut Compressed;
    /// Whether compressed bytes were left when it said that it is at its end.
    fn has_more(&mut self) -> io::Result<bool>;
}

impl Decoder for MultiGzDecoder<BufReader<Compressed>> {
    fn source(&mut self) -> &mut Compressed {
        self.get_mut().get_mut()
    }
    fn has_more(&mut self) -> io::Result<bool> {
        Ok(!self.get_mut().fill_buf()?.is_empty())
    }
}

impl Decoder for zstd::stream::read::Decoder<'static, BufReader<Compressed>> {
    fn source(&mut self) -> &mut Compressed {
        self.get_mut().get_mut()
    }
    fn has_more(&mut self) -> io::Result<bool> {
        Ok(!self.get_mut().fill_buf()?.is_empty())
    }
}

struct Inflated<D> {
    name: String,
    kind: &'static str,
    decoder: D,
}

impl<D: Decoder> Input for Inflated<D> {
    fn read(&mut self, buf: &mut [u8], wait: Option<Duration>) -> Result<ReadOutcome, SourceError> {
        self.decoder.source().wait = wait;
        loop {
            let result = match self.decoder.read(buf) {
                Ok(0) => self.decoder.has_more().map(|_| 0),
                other => other,
            };
            match result {
                Ok(0) => return Ok(ReadOutcome::End),
                Ok(count) => return Ok(ReadOutcome::Bytes(count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let stopped = self.decoder.source().stopped;
                    return Ok(if stopped { ReadOutcome::Stopped } else { ReadOutcome::Nothing });
                }
                Err(error) => return Err(self.failure(&error)),
            }
        }
    }
}

impl<D: Decoder> Inflated<D> {
    fn failure(&mut self, error: &io::Error) -> SourceError {
        let (kind, source) = (self.kind, self.decoder.source());
        if let Some(failed) = source.failed.take() {
            return failed;
        }
        let count = source.count;
        let (what, remedy) = if error.kind() == ErrorKind::UnexpectedEof {
            ("ends early", "it was cut short; get it again")
        } else {
            ("is corrupt", "get it again, or set `compression = \"none\"` if it is not compressed")
        };
        let message =
            format!("its {kind} data {what} within the first {count} compressed bytes: {error}");
        SourceError::new(&self.name, message, remedy)
    }
}

/// An input that could not be started.
struct Refused(SourceError);

impl Input for Refused {
    fn read(&mut self, _: &mut [u8], _: Option<Duration>) -> Result<ReadOutcome, SourceError> {
        Err(self.0.clone())
    }
}
