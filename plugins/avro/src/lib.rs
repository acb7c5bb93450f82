//! Avro object container files: the fields of the writer's schema become fields of a record.
//!
//! A file is a header (`header`), which holds the schema (`schema`) and a sync marker, and blocks
//! of records, each followed by the marker. The schema is converted once for each file into a list
//! of steps (`layout`), along which a record is read (`record`). Text and bytes are spans of the
//! chunk or of a decompressed block. Blocks without compression are read record by record
//! (`plain`), so they may have any size; only a small one must be complete first. A compressed
//! block must be completely in the chunk; the host decompresses it in parts (`packed`).
//!
//! **State between calls.** The state has the file's header, and the progress in the current block:
//! in records, and in bytes of its records. A compressed block is consumed after its last record. A
//! block without compression is consumed record by record, its head with the first one.
//!
//! **The last byte.** After each record and each block's head, more bytes follow: at least those of
//! the sync marker. So both are read only if the byte after them is in the chunk. An input that
//! ends inside a block therefore always has unconsumed bytes, at which the error is.
//!
//! **After an error** in a block whose marker was seen, the size of the block is right, and
//! decoding continues after it. Otherwise the size may be damaged, and the decoder searches for the
//! marker. A marker of which half is intact counts as one: otherwise damage to a marker would also
//! lose the block after it.
//!
//! **Several files** may follow each other, as in the FIFOs of Pipe mode, if their records have the
//! same fields. The first byte of the magic can't begin a block: it would be a negative number of
//! records.

mod block;
mod errors;
mod header;
mod layout;
mod packed;
mod plain;
mod reader;
mod record;
mod schema;
mod skip;
mod state;

use block::{BlockCodec, Budget, Call, File, MAX_HEAD, MIN_BLOCK, Next};
use header::{Header, HeaderError, MAGIC, SYNC};
use layout::Layout;
use pipemill_parsing::head::Head;
use pipemill_parsing::paths::wanted_paths;
use pipemill_plugin::{
    DecodeError, Decoder, Field, Level, OptionSpec, Options, Progress, Records, Resync, StreamInfo,
};
use reader::{Reader, Stop};
use record::RecordReader;
use schema::Schema;
use state::{PackedBlock, PlainBlock, State};

pub use state::Avro;

/// Largest size of a header in bytes, unless `max_record` is more.
const MAX_HEADER: u64 = 1 << 20;
/// Largest size of a schema in bytes. The parsed schema takes more memory than its text.
const MAX_SCHEMA: usize = 1 << 20;
/// Largest size of a stream's metadata in bytes.
const MAX_METADATA: usize = 65_536;

#[cfg(feature = "export")]
pipemill_plugin::export!(Avro);

impl Decoder for Avro {
    fn options() -> Vec<OptionSpec> {
        vec![OptionSpec::string(
            "fields",
            None,
            "the fields to read, as in \"id,name=user.name\"; default: all",
        )]
    }

    fn open(options: &Options, info: &StreamInfo) -> Result<Self, String> {
        Ok(Self {
            head: Head::new(info).of_decoder("avro"),
            wanted: wanted_paths(options, "fields", "field")?,
            max_record: info.max_record,
            budget: Budget::new(info.max_record),
            file: None,
            header_bytes: None,
            state: State::Between,
            has_tail: false,
            reader: RecordReader::default(),
        })
    }

    fn schema(&self) -> Option<Vec<Field>> {
        None
    }

    fn restart(&self) -> Option<u64> {
        let header = self.header_bytes?;
        let is_between = match &self.state {
            State::Between => true,
            State::Plain(block) => block.is_whole(),
            // It is consumed as a whole.
            State::Packed(_) => true,
        };
        is_between.then_some(header)
    }

    fn decode(
        &mut self,
        chunk: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        let result = self.decode_records(chunk, end, out);
        self.head.explain(chunk, end, result)
    }

    fn resync(&mut self, chunk: &[u8], end: bool) -> Resync {
        let marker = self.file.as_ref().and_then(|file| header::find_sync(&file.sync, chunk));
        match marker {
            Some(at) => Resync { consumed: at + SYNC, found: true },
            None if end => Resync { consumed: chunk.len(), found: false },
            None => Resync { consumed: chunk.len().saturating_sub(SYNC - 1), found: false },
        }
    }
}

impl Avro {
    /// Emits the records that are completely in the chunk.
    fn decode_records(
        &mut self,
        chunk: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        let mut call = Call::new(chunk, end);
        loop {
            let next = match (&self.file, &self.state) {
                (None, _) => self.header(&mut call, out)?,
                (_, State::Between) if call.rest().starts_with(&MAGIC) => {
                    self.header(&mut call, out)?
                }
                (_, State::Between) => self.begin_block(&mut call)?,
                (_, State::Plain(_)) => self.plain(&mut call, out)?,
                (_, State::Packed(_)) => self.packed(&mut call, out)?,
            };
            match next {
                Next::GoOn => {}
                Next::Return(progress) => return Ok(progress),
            }
        }
    }

    /// Reads the head of a block: the number of its records and its size in bytes.
    fn begin_block(&mut self, call: &mut Call) -> Result<Next, DecodeError> {
        let (at, rest) = (call.at, call.rest());
        if rest.is_empty() && call.end {
            return Ok(Next::Return(Progress::consumed(at)));
        }
        let error = |message: String| DecodeError::searchable(at, message, at as u64 + 1);
        let mut reader = Reader::new(rest, 0, MAX_HEAD);
        let head = match (reader.long(), reader.long()) {
            _ if rest.len() < MIN_BLOCK => Err(Stop::Cut(MIN_BLOCK)),
            (Ok(_), Ok(_)) if reader.at() == rest.len() => Err(Stop::Cut(reader.at() + 1)),
            (Ok(records), Ok(size)) => Ok((records, size)),
            (Err(stop), _) | (_, Err(stop)) => Err(stop),
        };
        let (records, size) = match head {
            Ok(head) => head,
            Err(Stop::Cut(_)) if call.end => {
                let left = rest.len();
                return Err(error(format!(
                    "expected a block, found the end of the file after {left} bytes; it was cut short"
                )));
            }
            Err(Stop::Cut(need)) => return Ok(call.wants(need)),
            Err(Stop::Bad { at, problem }) => {
                return Err(error(format!("expected a block, found at +{at}: {problem}")));
            }
        };
        let (Ok(records), Ok(size), Some(file)) =
            (u64::try_from(records), u64::try_from(size), &self.file)
        else {
            return Err(error(format!(
                "expected a block, found one of {records} records and {size} bytes; the file is damaged \
                 here or before"
            )));
        };
        let head = reader.at();
        if file.codec == BlockCodec::Null {
            return self.begin_plain(PlainBlock::new(head, records, size), call);
        }
        if size > self.max_record {
            return Err(error(errors::large_block(size, self.max_record)));
        }
        self.state = State::Packed(PackedBlock::new(records, head, size, self.budget.part(size)));
        Ok(Next::GoOn)
    }

    /// Reads the header of a file. An object without any bytes has no header and no records.
    fn header(&mut self, call: &mut Call, out: &mut Records) -> Result<Next, DecodeError> {
        let (at, rest) = (call.at, call.rest());
        if rest.is_empty() && call.end {
            return Ok(Next::Return(Progress::consumed(at)));
        }
        let max = usize::try_from(self.max_record.max(MAX_HEADER)).unwrap_or(usize::MAX);
        let header = match Header::read(rest, max) {
            Ok(header) => header,
            Err(HeaderError::Cut(_)) if call.end => {
                let message =
                    "the file ends inside its header; it was cut short, or is no Avro file";
                return Err(DecodeError::fatal(at, message));
            }
            Err(HeaderError::Cut(need)) => {
                return Ok(Next::Return(Progress::consumed(at).and_wants(need)));
            }
            Err(HeaderError::Invalid(message)) => return Err(DecodeError::fatal(at, message)),
        };
        let codec = header.codec.clone().map_or(&b"null"[..], |codec| &rest[codec]);
        let codec = block::codec(codec).map_err(|message| DecodeError::refused(at, message))?;
        let text = &rest[header.schema.clone()];
        if text.len() > MAX_SCHEMA {
            let size = text.len();
            let message = format!("the file's schema has {size} bytes; {MAX_SCHEMA} are supported");
            return Err(DecodeError::refused(at, message));
        }
        let invalid =
            |why| DecodeError::fatal(at, format!("the file's schema is not valid: {why}"));
        let schema = Schema::parse(text).map_err(invalid)?;
        let layout = Layout::new(schema, self.wanted.as_deref())
            .map_err(|message| DecodeError::refused(at, message))?;
        match &self.file {
            None => {
                set_metadata(&String::from_utf8_lossy(text), codec.name(), out);
                out.set_schema(&layout.fields);
                self.header_bytes = Some(header.end as u64);
            }
            Some(file) if file.layout.fields != layout.fields => {
                let message = "another file follows, whose records have other fields; all files of \
                               an object must have the same";
                return Err(DecodeError::refused(at, message));
            }
            Some(_) => self.header_bytes = None,
        }
        self.has_tail = false;
        self.file = Some(File { codec, sync: header.sync, layout });
        call.at += header.end;
        Ok(Next::GoOn)
    }
}

/// Reports the writer's schema and the codec to the consumers. A schema that is too large is left
/// out.
fn set_metadata(schema: &str, codec: &str, out: &mut Records) {
    const KEYS: [&str; 2] = ["avro.codec", "avro.schema"];
    out.set_metadata(KEYS[0], codec);
    if KEYS.concat().len() + codec.len() + schema.len() <= MAX_METADATA {
        out.set_metadata(KEYS[1], schema);
    } else {
        let size = schema.len();
        let message = format!(
            "the writer's schema has {size} bytes, too many for metadata: consumers don't get it"
        );
        out.log(Level::Warn, &message);
    }
}
