//! Decodes an input that is in memory, in chosen pieces, and keeps all that can be seen of it.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pipemill_channel::{
    Batch, Channel, ChannelStats, ErrorPolicy, Event, Failure, Observer, OnError, Outcome, Sink,
    StopReason,
};
use pipemill_decode::{Limits, Plugin};
use pipemill_source::{Input, Object, ReadOutcome, Source, SourceError, SourceEvent};
use pipemill_types::{ABSENT, Field};

/// The plugin that is tried, and how it is set.
#[derive(Clone)]
pub struct PluginUnderTest {
    /// The plugin.
    pub plugin: Plugin,
    /// Its options.
    pub options: Vec<(String, String)>,
    /// What it may use.
    pub limits: Limits,
    /// Largest record, in bytes.
    pub max_record: u64,
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Where it begins in the input.
    pub start: u64,
    /// Its fields; `None` is an absent one.
    pub fields: Vec<Option<Vec<u8>>>,
}

/// All that can be seen of an input that was decoded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DecodeRun {
    /// The fields of its records, if they became known.
    pub schema: Option<Arc<[Field]>>,
    /// Its records.
    pub records: Vec<Record>,
    /// The decode errors: only the first one, unless they are skipped.
    pub errors: Vec<Failure>,
}

impl PluginUnderTest {
    /// Decodes `input`, which comes in pieces of these sizes, and then all the rest. With `skip`, what
    /// can't be decoded is passed over.
    pub fn read(&self, input: &Arc<[u8]>, pieces: &[usize], skip: bool) -> DecodeRun {
        let errors = Arc::new(Mutex::new(Vec::new()));
        let on_error = if skip { OnError::Skip } else { OnError::Fail };
        let mut channel = Channel {
            name: "test".to_owned(),
            source: Box::new(Once { input: Some(input.clone()), pieces: pieces.to_vec() }),
            plugin: self.plugin.clone(),
            options: self.options.clone(),
            limits: self.limits.clone(),
            policy: ErrorPolicy::new(on_error, u64::MAX),
            max_record: self.max_record,
            linger: Duration::ZERO,
            offsets: true,
            observers: vec![Box::new(ErrorCollector(errors.clone()))],
        };
        let mut keeper = Keeper::default();
        let outcome = channel.run(&mut keeper, &ChannelStats::default());
        let mut errors = errors.lock().map(|mut it| std::mem::take(&mut *it)).unwrap_or_default();
        if let Outcome::Failed(failure) = outcome {
            errors.push(failure);
        }
        DecodeRun { schema: keeper.schema, records: keeper.records, errors }
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

/// A source of one object in memory.
struct Once {
    input: Option<Arc<[u8]>>,
    pieces: Vec<usize>,
}

impl Source for Once {
    fn next(&mut self) -> Result<SourceEvent, SourceError> {
        let Some(bytes) = self.input.take() else { return Ok(SourceEvent::End) };
        let pieces = std::mem::take(&mut self.pieces).into_iter();
        let input = Box::new(Pieces { bytes, at: 0, pieces });
        Ok(SourceEvent::Object(Object { epoch: 0, name: "input".to_owned(), input }))
    }

    fn end_epoch(&mut self) {}
}

struct Pieces {
    bytes: Arc<[u8]>,
    at: usize,
    pieces: std::vec::IntoIter<usize>,
}

impl Input for Pieces {
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

/// Memory of a batch.
const MEMORY: usize = 256 << 10;

/// A sink that keeps every record.
#[derive(Default)]
struct Keeper {
    schema: Option<Arc<[Field]>>,
    records: Vec<Record>,
}

impl Sink for Keeper {
    type Memory = Vec<u8>;

    fn memory(&mut self) -> Result<Vec<u8>, StopReason> {
        Ok(vec![0; MEMORY])
    }

    fn large_memory(&mut self, payload: usize, _: usize) -> Result<Vec<u8>, StopReason> {
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
