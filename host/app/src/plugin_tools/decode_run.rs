//! Decodes an input in memory, in given pieces, and keeps the records and errors.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pipemill_channel::{
    Batch, Channel, ChannelStats, ErrorPolicy, Event, Failure, Observer, OnError, OnPluginError,
    Outcome, Sink, StopReason,
};
use pipemill_decode::{Limits, Plugin};
use pipemill_source::{Input, Object, ReadOutcome, Source, SourceError, SourceEvent};
use pipemill_types::{ABSENT, Field};

/// A plugin with its options and limits.
#[derive(Clone)]
pub struct PluginUnderTest {
    /// The plugin.
    pub plugin: Plugin,
    /// Its options.
    pub options: Vec<(String, String)>,
    /// The limits of its instances.
    pub limits: Limits,
    /// Largest record, in bytes.
    pub max_record: u64,
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Byte offset in the input at which it starts.
    pub start: u64,
    /// The bytes of each field; `None` if the field is absent.
    pub fields: Vec<Option<Vec<u8>>>,
}

/// The result of decoding an input.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DecodeRun {
    /// The fields of the records; `None` if the decoder did not declare them.
    pub schema: Option<Arc<[Field]>>,
    /// The records.
    pub records: Vec<Record>,
    /// The errors: all that were skipped, and the one that ended the run.
    pub errors: Vec<Failure>,
}

impl PluginUnderTest {
    /// Decodes `input`. It arrives in pieces of these sizes in bytes, and one more piece with the
    /// rest. With `skip`, decode errors are skipped; else the first one ends the run.
    pub fn decode(&self, input: &Arc<[u8]>, pieces: &[usize], skip: bool) -> DecodeRun {
        let errors = Arc::new(Mutex::new(Vec::new()));
        let on_error = if skip { OnError::Skip } else { OnError::Fail };
        let mut channel = Channel {
            name: "test".to_owned(),
            source: Box::new(SingleObject { input: Some(input.clone()), pieces: pieces.to_vec() }),
            plugin: self.plugin.clone(),
            options: self.options.clone(),
            limits: self.limits.clone(),
            policy: ErrorPolicy::new(on_error, OnPluginError::Fail, u64::MAX),
            max_record: self.max_record,
            linger: Duration::ZERO,
            offsets: true,
            observers: vec![Box::new(ErrorCollector(errors.clone()))],
        };
        let mut sink = RecordCollector::default();
        let outcome = channel.run(&mut sink, &ChannelStats::default());
        let mut errors =
            errors.lock().map(|mut errors| std::mem::take(&mut *errors)).unwrap_or_default();
        if let Outcome::Failed(failure) = outcome {
            errors.push(failure);
        }
        DecodeRun { schema: sink.schema, records: sink.records, errors }
    }
}

/// Collects the decode errors that are skipped.
struct ErrorCollector(Arc<Mutex<Vec<Failure>>>);

impl Observer for ErrorCollector {
    fn event(&self, _: Instant, event: &Event<'_>) {
        if let Event::DecodeErrorSkipped { failure, .. } = *event
            && let Ok(mut errors) = self.0.lock()
        {
            errors.push(failure.clone());
        }
    }
}

/// A source with one object in memory.
struct SingleObject {
    input: Option<Arc<[u8]>>,
    pieces: Vec<usize>,
}

impl Source for SingleObject {
    fn next(&mut self) -> Result<SourceEvent, SourceError> {
        let Some(bytes) = self.input.take() else { return Ok(SourceEvent::End) };
        let pieces = std::mem::take(&mut self.pieces).into_iter();
        let input = Box::new(InputInPieces { bytes, at: 0, pieces });
        Ok(SourceEvent::Object(Object { epoch: 0, name: "input".to_owned(), input }))
    }

    fn end_epoch(&mut self) {}
}

/// An input that returns one piece per read.
struct InputInPieces {
    bytes: Arc<[u8]>,
    at: usize,
    pieces: std::vec::IntoIter<usize>,
}

impl Input for InputInPieces {
    fn read(&mut self, buf: &mut [u8], _: Option<Duration>) -> Result<ReadOutcome, SourceError> {
        let rest = &self.bytes[self.at..];
        if rest.is_empty() {
            return Ok(ReadOutcome::End);
        }
        let size = self.pieces.next().unwrap_or(rest.len()).max(1);
        let count = size.min(rest.len()).min(buf.len());
        buf[..count].copy_from_slice(&rest[..count]);
        self.at += count;
        Ok(ReadOutcome::Bytes(count))
    }
}

/// Size of the memory of a batch, in bytes.
const BATCH_BYTES: usize = 256 << 10;

/// A sink that keeps all records.
#[derive(Default)]
struct RecordCollector {
    schema: Option<Arc<[Field]>>,
    records: Vec<Record>,
}

impl Sink for RecordCollector {
    type Memory = Vec<u8>;

    fn memory(&mut self) -> Result<Vec<u8>, StopReason> {
        Ok(vec![0; BATCH_BYTES])
    }

    fn dedicated_memory(&mut self, payload: usize, _: usize) -> Result<Vec<u8>, StopReason> {
        Ok(vec![0; payload])
    }

    fn room(&self, memory: &Vec<u8>, _: usize, _: usize) -> usize {
        memory.len()
    }

    fn schema(&mut self, fields: &Arc<[Field]>) {
        self.schema = Some(fields.clone());
    }

    fn grant(&mut self, memory: Vec<u8>, batch: &Batch) -> Result<(), StopReason> {
        for record in 0..batch.records {
            let fields = batch.columns.iter().map(|column| {
                let (offset, length) = (column.offsets[record], column.lengths[record] as usize);
                (offset != ABSENT).then(|| memory[offset as usize..][..length].to_vec())
            });
            let start = batch.starts.get(record).copied().unwrap_or_default();
            self.records.push(Record { start, fields: fields.collect() });
        }
        Ok(())
    }

    fn has_demand(&self) -> bool {
        true
    }

    fn wants_epoch_end(&self, _: u32) -> bool {
        false
    }

    fn end_epoch(&mut self, _: u32, _: bool) -> Result<(), StopReason> {
        Ok(())
    }
}
