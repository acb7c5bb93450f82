//! Arrow IPC, as a stream and as a file: the columns of the schema become fields of a record, and a
//! record is a row.
//!
//! A stream is messages (`message`, whose metadata is read by `flatbuffer`): a schema (`schema`),
//! then dictionaries (`dictionary`) and batches of rows, then an end mark. A file is the same
//! between a magic and a footer that repeats where the batches lie. It is read from its start, and
//! the footer is skipped (`footer`), or in parts, a batch each: `plan` makes them of the `blocks`
//! that the footer names, a batch may be `pruned` to the wanted columns, and `part` reads them.
//! `columns` decides which columns become fields, and where a batch has them. `array` finds a
//! column's buffers and the values in them, `batch` emits the rows of a batch, many of them
//! together as a `column_block`, and `convert` makes values of fields of them. The host decompresses
//! buffers.
//!
//! **State between calls.** The state has the schema, the dictionaries, and the next row of a
//! batch. A message is consumed as a whole, a batch after its last row. So decoding can begin again
//! at each message with the schema and the dictionaries before the first batch as header, until a
//! dictionary comes later.
//!
//! **After an error** in the rows of a batch, decoding continues at the next message. Where the
//! metadata is damaged, the decoder searches for the next batch that fits the schema; not with
//! dictionaries, because one may be lost, and values would be wrong.
//!
//! **Several streams and files** may follow each other, if their records have the same fields.

mod array;
mod batch;
mod blocks;
mod column_block;
mod columns;
mod convert;
mod dictionaries;
mod dictionary;
mod flatbuffer;
mod footer;
mod message;
mod part;
mod plan;
mod pruned;
mod schema;
mod search;
mod stream;

use pipemill_parsing::head::Head;
use pipemill_parsing::paths::{WantedPath, wanted_paths};
use pipemill_plugin::{
    DecodeError, Decoder, Field, Next, OptionSpec, Options, Piece, Progress, Records, Resync,
    StreamInfo,
};

use crate::footer::Footer;
use crate::part::OpenPart;
use crate::stream::Stream;

#[cfg(feature = "export")]
pipemill_plugin::export!(Arrow);

/// The first and the last bytes of a file.
const MAGIC: &[u8] = b"ARROW1";
/// Bytes of a file before its first message: the magic, and padding.
const FILE_HEAD: usize = 8;
/// The first bytes of Feather's first version, which is another format.
const FEATHER_1: &[u8] = b"FEA1";

/// The decoder of a stream of bytes.
#[derive(Debug)]
pub struct Arrow {
    head: Head,
    wanted: Option<Vec<WantedPath>>,
    limits: Limits,
    state: State,
    /// The fields of the first stream.
    fields: Option<Vec<Field>>,
    /// Number of bytes that were consumed; `None` after an error before the first batch.
    position: Option<u64>,
    /// Number of bytes before the first batch.
    header: Option<u64>,
    /// Whether the state is that after the header.
    can_restart: bool,
    /// Whether nothing was consumed since an error.
    has_failed: bool,
    /// Whether the parts of a plan are shown.
    is_planned: bool,
    /// The part that is read.
    part: Option<OpenPart>,
}

/// What the decoder may hold and produce.
#[derive(Debug, Clone, Copy)]
struct Limits {
    max_record: u64,
    /// Largest metadata of a message.
    metadata: usize,
    /// Bytes of output after which a call returns.
    output: usize,
}

/// What comes next.
#[derive(Debug)]
enum State {
    /// A stream or a file.
    Between,
    /// The messages of a stream.
    Messages(Box<Stream>),
    Footer(Footer),
}

/// A call of `decode`.
#[derive(Debug)]
struct Call<'a> {
    chunk: &'a [u8],
    end: bool,
    /// Number of bytes of the chunk that are finished.
    at: usize,
    /// Number of bytes of output so far.
    spent: usize,
}

/// What follows a step of a call.
enum Step {
    GoOn,
    /// `decode` returns this.
    Return(Progress),
}

impl<'a> Call<'a> {
    /// The bytes of the chunk that are not finished.
    fn rest(&self) -> &'a [u8] {
        &self.chunk[self.at..]
    }

    /// Returns, and asks for this number of bytes after the finished ones.
    fn wants(&self, bytes: usize) -> Step {
        Step::Return(Progress::consumed(self.at).and_wants(bytes))
    }

    /// Returns, and asks for a call with an empty payload.
    fn again(&self) -> Step {
        Step::Return(Progress::more(self.at))
    }
}

impl Limits {
    fn new(max_record: u64) -> Self {
        const MIB: u64 = 1 << 20;
        // The values fit: they are at most 16 MiB.
        Self {
            max_record,
            metadata: max_record.clamp(MIB, 16 * MIB) as usize,
            output: max_record.clamp(1 << 10, 4 * MIB) as usize,
        }
    }
}

impl Decoder for Arrow {
    fn options() -> Vec<OptionSpec> {
        vec![OptionSpec::string(
            "columns",
            None,
            "the columns to read, as in \"id,name=user.name\"; default: all",
        )]
    }

    fn open(options: &Options, info: &StreamInfo) -> Result<Self, String> {
        Ok(Self {
            head: match info.is_planned() {
                true => Head::unchecked(),
                false => Head::new(info).of_decoder("arrow"),
            },
            wanted: wanted_paths(options, "columns", "column")?,
            limits: Limits::new(info.max_record),
            state: State::Between,
            fields: None,
            position: Some(0),
            header: None,
            can_restart: true,
            has_failed: false,
            is_planned: info.is_planned(),
            part: None,
        })
    }

    fn schema(&self) -> Option<Vec<Field>> {
        None
    }

    fn restart(&self) -> Option<u64> {
        if self.is_planned {
            return self.part.is_none().then_some(0);
        }
        // After an error that has led to the end, the end is no error.
        let is_between = matches!(self.state, State::Messages(_)) && !self.has_failed;
        let can_restart = self.can_restart && is_between;
        self.header.filter(|_| can_restart)
    }

    fn decode(
        &mut self,
        chunk: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        if self.is_planned {
            let result = self.decode_part(chunk, end, out);
            return self.head.explain(chunk, end, result);
        }
        let mut call = Call { chunk, end, at: 0, spent: 0 };
        let result = self.run(&mut call, out);
        match &result {
            Ok(progress) => {
                self.position = self.position.map(|at| at + progress.consumed as u64);
                self.has_failed &= progress.consumed == 0;
            }
            // Where it continues is not known here.
            Err(_) => (self.position, self.has_failed) = (None, true),
        }
        self.head.explain(chunk, end, result)
    }

    fn resync(&mut self, chunk: &[u8], end: bool) -> Resync {
        match &self.state {
            State::Messages(stream) => search::next_batch(stream, self.limits, chunk, end),
            _ => Resync { consumed: chunk.len(), found: false },
        }
    }

    fn plans() -> bool {
        true
    }

    fn plan(options: &Options, info: &StreamInfo, seen: &[Piece]) -> Result<Next, String> {
        plan::plan(options, info, seen)
    }
}

impl Arrow {
    /// Emits the rows of the batches that are completely in the chunk.
    fn run(&mut self, call: &mut Call, out: &mut Records) -> Result<Progress, DecodeError> {
        loop {
            let step = match &mut self.state {
                State::Between => self.begin(call)?,
                State::Messages(_) => self.message(call, out)?,
                State::Footer(footer) => match footer.skip(call)? {
                    Step::GoOn => {
                        self.state = State::Between;
                        Step::GoOn
                    }
                    step => step,
                },
            };
            if let Step::Return(progress) = step {
                return Ok(progress);
            }
        }
    }

    /// Begins a stream or a file.
    fn begin(&mut self, call: &mut Call) -> Result<Step, DecodeError> {
        let (at, rest) = (call.at, call.rest());
        if rest.is_empty() {
            // An object may have no bytes, and then it has no rows.
            return Ok(call.wants(FILE_HEAD));
        }
        if rest.len() < FILE_HEAD && !call.end {
            return Ok(call.wants(FILE_HEAD));
        }
        if rest.starts_with(FEATHER_1) {
            return Err(DecodeError::refused(
                at,
                "the object is a Feather file of version 1, which is another format: \
                 `pyarrow.feather` reads it, and writes version 2",
            ));
        }
        if rest.len() < FILE_HEAD {
            return Err(DecodeError::fatal(
                at,
                format!(
                    "expected the start of an Arrow stream or file, found {} bytes: `{}`",
                    rest.len(),
                    rest.escape_ascii()
                ),
            ));
        }
        let is_file = rest.starts_with(MAGIC);
        if is_file {
            call.at += FILE_HEAD;
        }
        self.can_restart &= self.fields.is_none();
        self.state = State::Messages(Box::new(Stream::new(is_file)));
        Ok(Step::GoOn)
    }
}
