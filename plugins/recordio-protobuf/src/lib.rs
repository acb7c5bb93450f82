//! The training data of SageMaker's built-in algorithms: RecordIO whose records are protobuf messages of
//! type `aialgs.data.Record`. Tensors become fields of numbers, with a type and a shape. The framing
//! stands in `pipemill-framing`, the wire format in `pipemill-protobuf`.
//!
//! What the options leave open is learned from the first record that is sound, and holds for the rest
//! of the object: a record of another type or shape is an error, never another schema.

mod describe;
mod emit;
mod layout;
mod record;
mod settings;
mod tensor;
mod twin;

use std::ops::Range;

use describe::Refused;
use emit::Source;
use layout::Layout;
use pipemill_parsing::framing::recordio::{Framing, Next};
use pipemill_plugin::{
    DecodeError, Decoder, Field, OptionSpec, Options, Progress, Records, Resync, StreamInfo,
};
use record::Record;
use settings::Settings;

/// The `recordio-protobuf` decoder.
#[derive(Debug)]
pub struct RecordIoProtobuf {
    framing: Framing,
    settings: Settings,
    /// What the fields are, once that is known.
    layout: Option<Layout>,
    /// The record that is read: kept for its memory.
    record: Record,
    /// A record in parts, joined: kept for its memory.
    joined: Vec<u8>,
    max_record: u64,
}

pipemill_plugin::export!(RecordIoProtobuf);

impl Decoder for RecordIoProtobuf {
    fn options() -> Vec<OptionSpec> {
        settings::specs()
    }

    fn open(options: &Options, info: &StreamInfo) -> Result<Self, String> {
        let settings = Settings::new(options)?;
        Ok(Self {
            framing: Framing::open(options, info),
            layout: Layout::told(&settings),
            record: Record::new(&settings),
            settings,
            joined: Vec::new(),
            max_record: info.max_record,
        })
    }

    fn schema(&self) -> Option<Vec<Field>> {
        self.layout.as_ref().map(|layout| layout.fields(&self.settings))
    }

    fn decode(
        &mut self,
        chunk: &[u8],
        _end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        let mut at = 0;
        loop {
            let (done, end) = match self.framing.next(chunk, at)? {
                Next::Plain { payload, end } => (
                    self.take(Source { bytes: chunk, base: at, in_chunk: true }, payload, out),
                    end,
                ),
                Next::Parts { end, .. } => {
                    let mut joined = std::mem::take(&mut self.joined);
                    joined.clear();
                    self.framing.join(&chunk[at..end], &mut joined);
                    let source = Source { bytes: &joined, base: 0, in_chunk: false };
                    let done = self.take(source, 0..joined.len(), out);
                    self.joined = joined;
                    (done, end)
                }
                Next::Cut { need } => return Ok(Progress { consumed: at, need }),
            };
            if let Err(why) = done {
                out.abandon_record();
                return Err(DecodeError::skippable(at, why.message(), end as u64));
            }
            out.end_record(at);
            at = end;
        }
    }

    fn resync(&mut self, chunk: &[u8], end: bool) -> Resync {
        Framing::resync(chunk, end)
    }
}

impl RecordIoProtobuf {
    /// Emits the fields of the record whose payload lies there.
    #[inline]
    fn take(
        &mut self,
        source: Source,
        payload: Range<usize>,
        out: &mut Records,
    ) -> Result<(), Refused> {
        let Self { settings, record, max_record, .. } = self;
        record.read(source.bytes, payload).map_err(|fault| Refused::fault(fault, &source))?;
        if let Some(layout) = &self.layout {
            return emit::record(settings, layout, record, &source, *max_record, out);
        }
        let layout = Layout::learn(settings, record, source.bytes)?;
        emit::record(settings, &layout, record, &source, *max_record, out)?;
        out.set_schema(&layout.fields(settings));
        self.layout = Some(layout);
        Ok(())
    }
}
