//! Decodes an input in memory, in given pieces, and keeps the records and errors.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pipemill_channel::{
    Batch, Channel, ChannelStats, ErrorPolicy, Event, Failure, Observer, OnError, OnPluginError,
    Outcome, Sink, StopReason,
};
use pipemill_decode::{Bytes, DecodeOutcome, DecodedRecords, IN_PAYLOAD, Limits, Plugin, Stream};
use pipemill_source::{Input, Object, ReadOutcome, Source, SourceError, SourceEvent};
use pipemill_types::{ABSENT, Fault, Field, ObjectFacts, StreamInfo};

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

/// The result of decoding an input that is shown together with its end.
pub(super) struct AtOnce {
    /// The records before the first error.
    pub(super) records: Vec<Record>,
    /// The first error; `None` if all of the input was decoded.
    pub(super) error: Option<String>,
}

impl PluginUnderTest {
    /// Decodes `input`, of which each chunk is shown with `end-of-input` set: the decoder sees the
    /// end together with bytes that it has not seen before. A channel does this only if the end
    /// comes while the decoder waits for more bytes. Ends at the first error.
    ///
    /// # Errors
    /// The decoder failed.
    pub(super) fn decode_at_once(&self, input: &Arc<[u8]>) -> Result<AtOnce, Fault> {
        let info = StreamInfo {
            channel: "test".to_owned(),
            epoch: 0,
            object: "input".to_owned(),
            max_record: self.max_record,
            offsets: true,
            facts: ObjectFacts::default(),
        };
        let mut stream = Stream::open(&self.plugin, &self.options, &info, &self.limits)?;
        let bytes: Bytes = Arc::new(input.clone());
        let (mut at, mut records) = (0, Vec::new());
        let error = loop {
            let outcome = stream.decode(&bytes, at..input.len(), true, 0);
            collect(stream.decoded(), input, at, &mut records);
            match outcome? {
                DecodeOutcome::Bad { message, .. } => break Some(message),
                DecodeOutcome::Progress { consumed, more: true, .. } => at += consumed,
                DecodeOutcome::Progress { consumed: 0, .. } if at == input.len() => break None,
                DecodeOutcome::Progress { consumed: 0, .. } => {
                    break Some("the input ends inside a record".to_owned());
                }
                DecodeOutcome::Progress { consumed, .. } => at += consumed,
            }
        };
        Ok(AtOnce { records, error })
    }
}

/// Appends the records of a call whose chunk is the input from `at` on.
fn collect(decoded: &DecodedRecords, input: &[u8], at: usize, records: &mut Vec<Record>) {
    for record in 0..decoded.records {
        let fields = decoded.columns.iter().map(|column| {
            let (offset, length) = (column.offsets[record], column.lengths[record] as usize);
            let from = (offset & !IN_PAYLOAD) as usize;
            match offset {
                ABSENT => None,
                made if made & IN_PAYLOAD != 0 => Some(decoded.payload[from..][..length].to_vec()),
                _ => Some(input[at + from..][..length].to_vec()),
            }
        });
        let start = at as u64 + u64::from(decoded.starts[record]);
        records.push(Record { start, fields: fields.collect() });
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
        Ok(SourceEvent::Object(Object {
            epoch: 0,
            name: "input".to_owned(),
            facts: ObjectFacts::default(),
            input,
        }))
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

    fn room(&self, memory: &Vec<u8>, _: usize, _: usize, _: usize) -> Option<usize> {
        Some(memory.len())
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
