//! ArrayRecord files, and other files of Riegeli/records: a record for each of theirs, as bytes.
//!
//! A file is chunks (`chunk`), one after the other, which are interrupted by a header every 64 KiB
//! (`layout`). HighwayHash protects headers and data (`hash`). A chunk of records has their sizes and
//! values, maybe compressed (`simple`). At its end, an ArrayRecord file has two chunks that look like
//! records, and say where the others lie (`trailer`). They are not needed: chunks follow each other,
//! and the header of each block says where the next one begins. They may be compressed, and a plan
//! can't decompress. So the decoder makes no plan: each chunk is a place to begin again, and a worker
//! finds one after any place.
//!
//! **State between calls.** The state is the place in the file, and within a chunk the number of its
//! records that were emitted. A chunk is consumed after its last record.
//!
//! **After an error** in a chunk whose header is sound, decoding continues at the next chunk.
//! Otherwise the decoder searches for the header of a block, which says where a chunk begins.

mod chunk;
mod hash;
mod layout;
mod simple;
mod trailer;
mod varint;

use chunk::{Chunk, NoHeader, kind};
use layout::{BLOCK, BLOCK_HEADER, Layout, chunk_by_block};
use pipemill_parsing::head::Head;
use pipemill_parsing::shown;
use pipemill_plugin::{
    DecodeError, Decoder, Field, Options, Progress, Records, Resume, Resync, StreamInfo,
};
use simple::{Output, Simple};
use trailer::Follows;

#[cfg(feature = "export")]
pipemill_plugin::export!(ArrayRecord);

/// Bytes that a call makes before it returns, if `max_record` is not less.
const CALL_BYTES: u64 = 1 << 20;

/// The decoder of a stream.
#[derive(Debug)]
pub struct ArrayRecord {
    head: Head,
    max_record: u64,
    /// The place of the next chunk of bytes in the file.
    place: u64,
    state: State,
}

/// What comes next.
#[derive(Debug)]
enum State {
    /// A chunk.
    Between,
    /// Records of the chunk.
    Records(Box<Simple>),
    /// Bytes that mean nothing, up to this place, at which the next chunk begins.
    Skipping { chunk: u64, until: u64 },
    /// After an error: bytes up to this place, at which a chunk begins.
    Found(u64),
}

/// What follows a step of a call.
enum Step {
    GoOn,
    /// `decode` returns this.
    Return(Progress),
}

impl Decoder for ArrayRecord {
    fn open(_: &Options, info: &StreamInfo) -> Result<Self, String> {
        Ok(Self {
            head: Head::new(info).of_decoder("array-record"),
            max_record: info.max_record,
            place: info.restart().map_or(0, |at| at.place),
            state: State::Between,
        })
    }

    fn schema(&self) -> Option<Vec<Field>> {
        Some(vec![Field::bytes("data")])
    }

    fn restart(&self) -> Option<u64> {
        matches!(self.state, State::Between).then_some(0)
    }

    fn decode(
        &mut self,
        chunk: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        let result = self.run(chunk, end, out);
        let result = self.head.explain(chunk, end, result);
        match &result {
            Ok(progress) => self.place += progress.consumed as u64,
            Err(error) => {
                self.state = State::Between;
                if let Resume::At(from) | Resume::Scan(from) = error.resume {
                    self.place = self.place.saturating_add(from);
                }
            }
        }
        result
    }

    fn resync(&mut self, chunk: &[u8], end: bool) -> Resync {
        let found = self.search(chunk, end);
        self.place += found.consumed as u64;
        found
    }
}

impl ArrayRecord {
    /// Emits the records of the chunks that are completely in these bytes.
    fn run(&mut self, bytes: &[u8], end: bool, out: &mut Records) -> Result<Progress, DecodeError> {
        let budget = self.max_record.clamp(1 << 10, CALL_BYTES) as usize;
        let max_record = self.max_record;
        let mut out = Output { bytes, at: 0, records: out, made: 0, budget, max_record };
        loop {
            let step = match &mut self.state {
                State::Between | State::Found(_) => self.begin(&mut out, end)?,
                State::Records(simple) => match simple.emit(&mut out)? {
                    true => self.end_records(&mut out),
                    false => Step::Return(Progress::more(out.at)),
                },
                State::Skipping { chunk, until } => {
                    let (chunk, until) = (*chunk, *until);
                    self.skip(&mut out, end, chunk, until)?
                }
            };
            if let Step::Return(progress) = step {
                return Ok(progress);
            }
        }
    }

    /// Reads the header of a chunk, and all of a chunk with records.
    fn begin(&mut self, out: &mut Output, end: bool) -> Result<Step, DecodeError> {
        let layout = Layout { begin: self.place + out.at as u64 };
        let (at, rest) = (out.at, &out.bytes[out.at..]);
        self.state = State::Between;
        let chunk = match Chunk::read(layout, rest) {
            Ok(chunk) => chunk,
            Err(NoHeader::Cut(_)) if end && rest.is_empty() => {
                return Ok(Step::Return(Progress::consumed(at)));
            }
            Err(NoHeader::Cut(size)) if end => return Err(cut_short(at, size as u64, rest.len())),
            Err(NoHeader::Cut(size)) => {
                return Ok(Step::Return(Progress::consumed(at).and_wants(size)));
            }
            Err(NoHeader::Damaged) => return Err(damaged_header(layout, at, rest)),
        };
        if layout.begin == 0 && !chunk.is_signature() {
            let why = "expected the signature of a Riegeli file, found another chunk";
            return Err(DecodeError::fatal(at, why));
        }
        match chunk.kind {
            _ if chunk.records == 0 => Ok(self.ignore(&chunk)),
            kind::SIMPLE => self.begin_records(chunk, out, end),
            kind::TRANSPOSED => Err(DecodeError::refused(
                at,
                "the records of the chunk are transposed, and how is documented nowhere; write the \
                 file without the option `transpose`",
            )),
            other => Err(DecodeError::refused(
                at,
                format!(
                    "the type of the chunk is `{}`, which is not known; write the file as \
                     ArrayRecord, or as Riegeli/records of simple chunks",
                    other.escape_ascii()
                ),
            )),
        }
    }

    /// Begins to emit the records of a chunk, once it is completely there.
    fn begin_records(
        &mut self,
        chunk: Chunk,
        out: &mut Output,
        end: bool,
    ) -> Result<Step, DecodeError> {
        let (at, rest) = (out.at, &out.bytes[out.at..]);
        if chunk.data > self.max_record {
            let Chunk { records, data, .. } = chunk;
            let why = format!(
                "the chunk of {records} records has {data} bytes, more than max_record ({} bytes); \
                 raise max_record, or write the file with a smaller group_size",
                self.max_record
            );
            return Err(out.damaged(&chunk, why));
        }
        // If padding follows, one byte of it: a file that ends before it has an unconsumed byte.
        let size = chunk.bytes() + u64::from(chunk.bytes() < chunk.bytes_with_padding());
        let cut = |size: u64| match end {
            true => Err(cut_short(at, size, rest.len())),
            false => Ok(Step::Return(Progress::consumed(at).and_wants(size as usize))),
        };
        if (rest.len() as u64) < size {
            return cut(size);
        }
        if !chunk.is_sound(rest) {
            let Chunk { records, data, .. } = chunk;
            let why = format!(
                "expected a chunk of {records} records in {data} bytes, found bytes with another hash; \
                 the file is damaged here"
            );
            return Err(out.damaged(&chunk, why));
        }
        if trailer::postscript(&chunk, rest).is_some() {
            return Ok(self.ignore(&chunk));
        }
        let mut simple = Simple::open(chunk, out)?;
        if simple.looks_like_footer(out)? {
            match trailer::after(&chunk, rest) {
                Follows::Postscript => return Ok(self.ignore(&chunk)),
                Follows::Other => {}
                Follows::Cut(size) => return cut(size as u64),
                Follows::Damage => {
                    let why = "the chunk may be the footer of an ArrayRecord file, or have records; what \
                               follows is damaged, and would tell";
                    return Err(out.damaged(&chunk, why.to_owned()));
                }
            }
        }
        self.state = State::Records(Box::new(simple));
        Ok(Step::GoOn)
    }

    /// Passes over a chunk.
    fn ignore(&mut self, chunk: &Chunk) -> Step {
        let begin = chunk.layout.begin;
        self.state = State::Skipping { chunk: begin, until: begin + chunk.bytes_with_padding() };
        Step::GoOn
    }

    /// Goes on after the last record of a chunk.
    fn end_records(&mut self, out: &mut Output) -> Step {
        let State::Records(simple) = std::mem::replace(&mut self.state, State::Between) else {
            return Step::GoOn;
        };
        let chunk = simple.chunk();
        let begin = chunk.layout.begin;
        let until = begin + chunk.bytes_with_padding();
        out.at += chunk.bytes() as usize;
        if begin + chunk.bytes() < until {
            self.state = State::Skipping { chunk: begin, until };
        }
        Step::GoOn
    }

    /// Passes over bytes up to a place. While it is not reached, one byte is not consumed: if the file
    /// ends, the error is there.
    fn skip(
        &mut self,
        out: &mut Output,
        end: bool,
        chunk: u64,
        until: u64,
    ) -> Result<Step, DecodeError> {
        let held = out.bytes.len() - out.at;
        let left = until - (self.place + out.at as u64);
        if held as u64 >= left {
            out.at += left as usize;
            self.state = State::Between;
            return Ok(Step::GoOn);
        }
        if end {
            let at = out.bytes.len().saturating_sub(1);
            let missing = left - held as u64;
            let why = format!(
                "expected {missing} more bytes of the chunk that begins at byte {chunk}, found the end \
                 of the file; it is cut short"
            );
            return Err(DecodeError::fatal(at, why));
        }
        Ok(Step::Return(match held {
            0 => Progress::consumed(out.at).and_wants(1),
            _ => Progress::consumed(out.bytes.len() - 1).and_wants(2),
        }))
    }

    /// Searches for the header of a block, and the chunk that it names.
    fn search(&mut self, bytes: &[u8], end: bool) -> Resync {
        let mut block = self.place.next_multiple_of(BLOCK);
        loop {
            if let State::Found(chunk) = self.state {
                let left = chunk.saturating_sub(self.place);
                let held = bytes.len() as u64;
                return Resync { consumed: left.min(held) as usize, found: left <= held };
            }
            let from = usize::try_from(block - self.place).unwrap_or(usize::MAX);
            let rest = bytes.get(from..).unwrap_or_default();
            let Some(header) = rest.first_chunk::<{ BLOCK_HEADER as usize }>() else {
                let consumed = if end { bytes.len() } else { from.min(bytes.len()) };
                return Resync { consumed, found: false };
            };
            match chunk_by_block(block, header) {
                Some(chunk) => self.state = State::Found(chunk),
                None => block += BLOCK,
            }
        }
    }
}

fn cut_short(at: usize, expected: u64, found: usize) -> DecodeError {
    let why = format!(
        "expected {expected} bytes of a chunk, found the end of the file after {found}; it is cut short"
    );
    DecodeError::fatal(at, why)
}

fn damaged_header(layout: Layout, at: usize, rest: &[u8]) -> DecodeError {
    let why = match layout.begin {
        0 => format!(
            "expected the signature of an ArrayRecord or Riegeli file, found {}",
            shown(rest, "")
        ),
        _ => "expected the header of a chunk, found bytes with another hash; the file is damaged here, \
              or was not closed"
            .to_owned(),
    };
    DecodeError::searchable(at, why, at as u64 + 1)
}
