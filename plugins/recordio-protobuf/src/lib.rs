//! The training data of SageMaker's built-in algorithms: RecordIO whose records are protobuf
//! messages of type `aialgs.data.Record`. Tensors become fields of numbers, with a type and a
//! shape. The framing and the wire format are in `pipemill_parsing`.
//!
//! Types and shapes that the options do not name are learned from the first valid record. They
//! apply to the rest of the object: a record of another type or shape is an error, because a schema
//! never changes.

mod column_form;
mod describe;
mod emit;
mod layout;
mod record;
mod settings;
mod template_cache;
mod tensor;

use std::ops::Range;

use describe::Refused;
use layout::Layout;
use pipemill_parsing::framing::recordio::{Framing, NextRecord};
use pipemill_parsing::head::Head;
use pipemill_plugin::{
    DecodeError, Decoder, Field, OptionSpec, Options, Progress, Records, Resync, StreamInfo,
};
use record::Record;
use record::RecordBytes;
use settings::Settings;

/// The `recordio-protobuf` decoder.
#[derive(Debug)]
pub struct RecordIoProtobuf {
    head: Head,
    framing: Framing,
    settings: Settings,
    /// The fields, once they are known.
    layout: Option<Layout>,
    /// Whether another stream, which may not see the first record, can know them, too.
    can_begin_again: bool,
    /// The record that is being read. It is a member so that its memory is reused.
    record: Record,
    /// The joined parts of a record. It is a member so that its memory is reused.
    joined: Vec<u8>,
    /// Largest record in bytes.
    max_record: u64,
}

#[cfg(feature = "export")]
pipemill_plugin::export!(RecordIoProtobuf);

impl Decoder for RecordIoProtobuf {
    fn options() -> Vec<OptionSpec> {
        settings::specs()
    }

    fn open(options: &Options, info: &StreamInfo) -> Result<Self, String> {
        let settings = Settings::new(options)?;
        // A stream that begins again has the layout of the first record, which it may not see.
        let before = info.restart().and_then(|_| info.fields_before());
        let learned = || Layout::learned_before(&settings, &before?);
        let layout = Layout::from_settings(&settings).or_else(learned);
        Ok(Self {
            head: Head::new(info),
            framing: Framing::open(options, info),
            can_begin_again: layout.is_some(),
            layout,
            record: Record::new(&settings),
            settings,
            joined: Vec::new(),
            max_record: info.max_record,
        })
    }

    fn schema(&self) -> Option<Vec<Field>> {
        self.layout.as_ref().map(|layout| layout.fields(&self.settings))
    }

    fn restart(&self) -> Option<u64> {
        self.can_begin_again.then_some(0)
    }

    fn decode(
        &mut self,
        chunk: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        let result = self.decode_records(chunk, out);
        self.head.explain(chunk, end, result)
    }

    fn resync(&mut self, chunk: &[u8], end: bool) -> Resync {
        Framing::resync(chunk, end)
    }
}

impl RecordIoProtobuf {
    /// Emits the records that are completely in the chunk.
    fn decode_records(&mut self, chunk: &[u8], out: &mut Records) -> Result<Progress, DecodeError> {
        let mut at = 0;
        loop {
            let (result, end) = match self.framing.next(chunk, at)? {
                NextRecord::Plain { payload, end } => {
                    let source = RecordBytes { bytes: chunk, base: at, in_chunk: true };
                    (self.emit_record(source, payload, out), end)
                }
                NextRecord::Parts { end, .. } => {
                    let mut joined = std::mem::take(&mut self.joined);
                    joined.clear();
                    self.framing.join(&chunk[at..end], &mut joined);
                    let source = RecordBytes { bytes: &joined, base: 0, in_chunk: false };
                    let result = self.emit_record(source, 0..joined.len(), out);
                    self.joined = joined;
                    (result, end)
                }
                NextRecord::Cut { need } => return Ok(Progress::consumed(at).and_wants(need)),
            };
            if let Err(refused) = result {
                out.abandon_record();
                return Err(DecodeError::skippable(at, refused.message(), end as u64));
            }
            out.end_record(at);
            at = end;
        }
    }

    /// Emits the fields of the record with this payload, but does not end it.
    #[inline]
    fn emit_record(
        &mut self,
        source: RecordBytes,
        payload: Range<usize>,
        out: &mut Records,
    ) -> Result<(), Refused> {
        let Self { settings, record, max_record, .. } = self;
        record.read(source.bytes, payload).map_err(|error| Refused::invalid(error, &source))?;
        if let Some(layout) = &self.layout {
            return emit::record(settings, layout, record, &source, *max_record, out);
        }
        let layout = Layout::learn(settings, record, source.bytes)?;
        emit::record(settings, &layout, record, &source, *max_record, out)?;
        out.set_schema(&layout.fields(settings));
        self.can_begin_again = layout.can_be_told(settings);
        self.layout = Some(layout);
        Ok(())
    }
}
