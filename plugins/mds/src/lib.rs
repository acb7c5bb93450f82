//! Shards of MosaicML's streaming datasets, `.mds`: a record for each sample, with the columns of
//! the shard as fields.
//!
//! A shard begins with a header (`header`): a table of its samples, and a description of its
//! columns (`columns`), which says how their values are written (`encoding`). The file `index.json`
//! of a dataset is not needed. `sample` reads one sample.
//!
//! **State between calls.** The state is the header, and the number of the next sample. A sample,
//! except for the last one, is consumed only when the byte after it has arrived, or if the next one
//! is too large. So a shard that
//! ends too early always has an unconsumed byte, at which the error is reported.
//!
//! **After an error** in a sample, decoding continues at the next one: the table says where it is.

mod columns;
mod encoding;
mod header;
mod sample;

use header::Header;
use pipemill_parsing::head::Head;
use pipemill_parsing::paths::{WantedPath, wanted_paths};
use pipemill_plugin::{
    DecodeError, Decoder, Field, OptionSpec, Options, Progress, Records, StreamInfo,
};

#[cfg(feature = "export")]
pipemill_plugin::export!(Mds);

/// Bytes that a call makes, which are no spans of the chunk, before it returns.
const CALL_BYTES: usize = 1 << 20;

/// The decoder of a stream.
#[derive(Debug)]
pub struct Mds {
    head: Head,
    wanted: Option<Vec<WantedPath>>,
    max_record: u64,
    /// Where the stream begins inside of the shard, after the header.
    place: Option<u64>,
    shard: Option<Shard>,
}

/// A shard whose header was read.
#[derive(Debug)]
struct Shard {
    header: Header,
    /// The number of the next sample.
    next: usize,
}

impl Decoder for Mds {
    fn options() -> Vec<OptionSpec> {
        vec![OptionSpec::string(
            "columns",
            None,
            "the columns to read, as in \"image,label=class\"; default: all",
        )]
    }

    fn open(options: &Options, info: &StreamInfo) -> Result<Self, String> {
        Ok(Self {
            head: Head::new(info).of_decoder("mds"),
            wanted: wanted_paths(options, "columns", "column")?,
            // Offsets in the sandbox have 32 bits.
            max_record: info.max_record.min(u32::MAX.into()),
            place: info.restart().filter(|at| at.header > 0).map(|at| at.place),
            shard: None,
        })
    }

    fn schema(&self) -> Option<Vec<Field>> {
        None
    }

    fn decode(
        &mut self,
        chunk: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        let result = match &mut self.shard {
            Some(shard) => shard.decode(chunk, 0, end, self.max_record, out),
            None if chunk.is_empty() && end => Ok(Progress::consumed(0)),
            None => self.begin(chunk, end, out),
        };
        self.head.explain(chunk, end, result)
    }

    fn restart(&self) -> Option<u64> {
        self.shard.as_ref().map(|shard| shard.header.size().into())
    }
}

impl Mds {
    /// Reads the header, once all of it is in the chunk, and the samples after it.
    fn begin(
        &mut self,
        chunk: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        let size = match header::size(chunk, self.max_record)? {
            Some(size) if chunk.len() >= size => size,
            size if end => return Err(header::cut_short(chunk.len(), size)),
            size => return Ok(Progress::wants(size.unwrap_or(header::FIRST))),
        };
        let header = Header::read(&chunk[..size], self.wanted.as_deref())?;
        let next = self.place.map_or(0, |place| header.sample_at(place));
        // A stream that begins after some samples is shown the header alone.
        if self.place.is_none() && header.samples() > 0 && chunk.len() == size {
            return match end {
                true => Err(header::cut_short(size, Some(size + 1))),
                false => Ok(Progress::wants(size + 1)),
            };
        }
        out.set_schema(header.fields());
        let shard = self.shard.insert(Shard { header, next });
        shard.decode(chunk, size, end, self.max_record, out)
    }
}

impl Shard {
    /// Emits the samples that are completely in the chunk from `at` on.
    fn decode(
        &mut self,
        chunk: &[u8],
        mut at: usize,
        end: bool,
        max_record: u64,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        let mut made = 0;
        while let Some(size) = self.header.sample(self.next) {
            if made >= CALL_BYTES {
                return Ok(Progress::more(at));
            }
            let (number, held) = (self.next, chunk.len() - at);
            if u64::from(size) > max_record {
                self.next += 1;
                return Err(DecodeError::skippable(
                    at,
                    format!(
                        "sample {number} of {size} bytes is larger than max_record ({max_record} \
                         bytes); raise max_record"
                    ),
                    at as u64 + u64::from(size),
                ));
            }
            let size = size as usize;
            // A sample that is too large is refused before any byte of it has come.
            let next = self.header.sample(number + 1).filter(|size| u64::from(*size) <= max_record);
            let need = size + usize::from(next.is_some());
            if held < need {
                return match end {
                    true => Err(self.cut_short(at, held)),
                    false => Ok(Progress::consumed(at).and_wants(need)),
                };
            }
            let sample = at..at + size;
            at = sample.end;
            self.next += 1;
            match self.header.columns().emit(chunk, sample.clone(), out) {
                Ok(bytes) => {
                    out.end_record(sample.start);
                    made += bytes;
                }
                Err(why) => out.bad(sample, format!("sample {number}: {why}"))?,
            }
        }
        match chunk.len() - at {
            0 => Ok(Progress::consumed(at)),
            _ => Err(DecodeError::fatal(
                at,
                format!(
                    "expected the end of the shard after its {} samples, found more bytes",
                    self.header.samples()
                ),
            )),
        }
    }

    fn cut_short(&self, at: usize, held: usize) -> DecodeError {
        let (next, samples) = (self.next, self.header.samples());
        DecodeError::fatal(
            at,
            format!(
                "expected {samples} samples, and the end of the shard at byte {}, found its end {held} \
                 bytes after the start of sample {next}; it is cut short",
                self.header.end()
            ),
        )
    }
}
