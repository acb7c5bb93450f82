//! Decodes an input in memory, in given pieces, and keeps the records and errors.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pipemill_channel::{
    Batch, Channel, ChannelStats, ErrorPolicy, Event, Failure, Learning, Observer, OnError,
    OnPluginError, Outcome, Sink, StopReason, Workers,
};
use pipemill_decode::{
    DecodedRecords, IN_PAYLOAD, Limits, Plugin, ReadyPlugin, SavedState, Stream,
};
use pipemill_planned::{PlanMaker, Planned};
use pipemill_source::{Companion, Input, Object, ReadOutcome, Source, SourceError, SourceEvent};
use pipemill_types::{
    ABSENT, ErrorKind, Fault, Field, ObjectFacts, ObjectIdentity, PlanParts, StreamInfo,
    planned_extension,
};

use super::slot_memories::SlotMemories;
use super::work::Work;
use pipemill_channel::memory_sink::{LookAtRecords, MemorySink};

/// A plugin with its options and limits.
#[derive(Clone)]
pub struct PluginUnderTest {
    /// The plugin.
    pub plugin: Plugin,
    /// Both, as they were made ready.
    ready: ReadyPlugin,
    /// Its options.
    pub options: Vec<(String, String)>,
    /// The limits of its instances.
    pub limits: Limits,
    /// Largest record, in bytes.
    pub max_record: u64,
    /// The companions of its input.
    companions: Vec<Arc<[u8]>>,
    /// Whether its streams are shown the parts of a plan.
    pub(super) is_planned: bool,
    /// The parts of the plan, if their records are counted.
    parts: Arc<PlanParts>,
    /// Whether its records are known to come from compressed blocks: several records have one
    /// start, and errors may follow inside of the block.
    pub(super) has_blocks: bool,
    /// The cost of its runs so far, including those of all clones.
    pub(super) work: Work,
    /// Earlier runs of inputs in one piece.
    whole_runs: WholeRuns,
}

/// The last runs of inputs in one piece: most cases of a test compare with the same run.
#[derive(Default)]
struct WholeRuns(Mutex<Vec<WholeRun>>);

/// An input, whether its errors were skipped, and its run.
type WholeRun = (Arc<[u8]>, bool, Arc<DecodeRun>);

/// The bytes of a plan, and its parts.
pub(super) type PlannedBytes = (Vec<u8>, Arc<PlanParts>);

/// Number of runs that are kept.
const KEPT_RUNS: usize = 2;

impl Clone for WholeRuns {
    fn clone(&self) -> Self {
        Self::default()
    }
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
    /// The facts about the input that the decoder reported. Without a record they are not known.
    pub metadata: BTreeMap<String, String>,
    /// The records.
    pub records: Vec<Record>,
    /// The errors: all skipped ones, and the one that ended the run.
    pub errors: Vec<RunError>,
}

/// An error of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunError {
    /// Byte offset in the input.
    pub offset: u64,
    /// The error's text: what was expected and what was found.
    pub message: String,
    /// The part of the run that is to blame.
    pub kind: ErrorKind,
    /// Number of records before it.
    pub records: usize,
    /// The place at which decoding continued.
    pub resumed: Resumed,
}

/// How decoding continued after an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resumed {
    /// It did not continue: the error ended the run, or the rest of the input can't be decoded.
    No,
    /// At this byte offset, as the decoder said. It may be after the end of the input.
    At(u64),
    /// At this byte offset, where the decoder found a record. The search began at `from`.
    Found {
        /// Byte offset at which the search began.
        from: u64,
        /// Byte offset at which it ended; the length of the input if it found nothing.
        at: u64,
    },
}

impl Resumed {
    /// The byte offset at which decoding continued.
    pub fn place(self) -> Option<u64> {
        match self {
            Self::No => None,
            Self::At(at) | Self::Found { at, .. } => Some(at),
        }
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at byte offset {}", self.message, self.offset)
    }
}

impl DecodeRun {
    /// Whether records share a start: they come from compressed blocks.
    pub fn has_blocks(&self) -> bool {
        self.records.windows(2).any(|pair| pair[0].start == pair[1].start)
    }

    /// The size of each value of each record, in bytes.
    pub(super) fn value_sizes(&self) -> impl Iterator<Item = usize> {
        let values = self.records.iter().flat_map(|record| &record.fields);
        values.map(|value| value.as_ref().map_or(0, Vec::len))
    }

    /// The fields of the records; empty if they are not known.
    pub fn fields(&self) -> &[Field] {
        self.schema.as_deref().unwrap_or_default()
    }
}

/// The start of the message of an input that ends inside a record. The host makes it, not the
/// decoder.
pub(super) const INPUT_ENDS: &str = "the input ends inside a record";

/// The start of the message of a channel that skipped all of its input. It repeats the first error.
const NOTHING_DELIVERED: &str = "no record was delivered";

impl PluginUnderTest {
    /// A plugin with options, and with the limits that records of up to `max_record` bytes need.
    pub fn new(ready: ReadyPlugin, max_record: u64) -> Self {
        let ReadyPlugin { plugin, options, .. } = ready.clone();
        let limits = Limits::for_records(max_record);
        let (work, whole_runs) = (Work::default(), WholeRuns::default());
        let (companions, is_planned, has_blocks) = (Vec::new(), false, false);
        Self {
            plugin,
            ready,
            options,
            limits,
            max_record,
            companions,
            is_planned,
            parts: Arc::default(),
            has_blocks,
            work,
            whole_runs,
        }
    }

    /// A plugin without the options that only an operator knows.
    pub fn without_options(plugin: Plugin, max_record: u64) -> Self {
        let ready = plugin.clone().with_options(&[], &Limits::for_records(max_record));
        let ready = ready.unwrap_or_else(|_| ReadyPlugin::without_options(plugin));
        Self::new(ready, max_record)
    }

    /// The same plugin, each of whose instances calls `prepare`. `None` if it prepares nothing.
    pub(super) fn prepared_each_time(&self) -> Option<Self> {
        let plugin = self.ready.prepared_each_time()?;
        Some(Self { plugin, ..self.clone() })
    }

    /// The same plugin, whose input has these companions.
    #[must_use]
    pub fn with_companions(&self, companions: Vec<Arc<[u8]>>) -> Self {
        Self { companions, ..self.clone() }
    }

    /// The same plugin, whose streams are shown the parts of a plan.
    pub fn planned(&self) -> Self {
        Self { is_planned: true, ..self.clone() }
    }

    /// The same plugin, whose streams are shown these parts of a plan, and whose records are
    /// compared with the numbers that it gives.
    pub(super) fn counted(&self, parts: &Arc<PlanParts>) -> Self {
        Self { parts: parts.clone(), ..self.planned() }
    }

    /// The bytes of the parts of its plan of an input, and the parts. `None` if it makes none.
    ///
    /// # Errors
    /// The plugin fails, breaks the contract, or refuses the input.
    pub(super) fn plan(&self, input: &Arc<[u8]>) -> Result<Option<PlannedBytes>, String> {
        let maker = PlanMaker {
            channel: "test".to_owned(),
            plugin: self.plugin.clone(),
            options: self.options.clone(),
            limits: self.limits.clone(),
            max_record: self.max_record,
        };
        let source = SingleObject {
            input: Some(input.clone()),
            pieces: Vec::new(),
            companions: self.companions.clone(),
            is_planned: false,
            parts: Arc::default(),
            has_ranges: true,
        };
        let failed = |error: SourceError| error.in_full();
        let event = Planned::new(Box::new(source), maker).next().map_err(failed)?;
        let SourceEvent::Object(mut object) = event else { return Ok(None) };
        if !object.facts.is_planned {
            return Ok(None);
        }
        let (mut bytes, mut piece) = (Vec::new(), vec![0; 64 << 10]);
        while let ReadOutcome::Bytes(count) = object.input.read(&mut piece, None).map_err(failed)? {
            bytes.extend_from_slice(&piece[..count]);
        }
        Ok(Some((bytes, object.facts.parts)))
    }

    /// The same plugin with another largest record. Its limits stay.
    pub(super) fn with_max_record(&self, max_record: u64) -> Self {
        Self { max_record, ..self.clone() }
    }

    /// Decodes `input` in one piece, unless it is among the last ones.
    pub(super) fn decode_whole(&self, input: &Arc<[u8]>, skip: bool) -> Arc<DecodeRun> {
        let mut runs = self.whole_runs.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |run: &&WholeRun| Arc::ptr_eq(&run.0, input) && run.1 == skip;
        if let Some((_, _, run)) = runs.iter().find(is_same) {
            return run.clone();
        }
        let run = Arc::new(self.decode(input, &[], skip));
        runs.truncate(KEPT_RUNS - 1);
        runs.insert(0, (input.clone(), skip, run.clone()));
        run
    }

    /// Decodes `input` in a channel. It arrives in pieces of these sizes in bytes, and one more
    /// piece with the rest. With `skip`, decode errors are skipped; otherwise the first one ends
    /// the run.
    pub fn decode(&self, input: &Arc<[u8]>, pieces: &[usize], skip: bool) -> DecodeRun {
        let mut sink = MemorySink::new(RecordCollector::default(), BATCH_BYTES);
        let ended = self.run_channel(input, pieces, skip, self.plugin.clone(), &mut sink);
        self.run_of(sink.looker, ended, input.len())
    }

    /// As [`decode`](Self::decode), but the decoder sees its chunks in its window.
    ///
    /// # Errors
    /// There is no memory.
    pub(super) fn decode_in_window(
        &self,
        input: &Arc<[u8]>,
        pieces: &[usize],
        skip: bool,
    ) -> Result<DecodeRun, String> {
        let slots = SlotMemories::new(BATCH_BYTES)
            .map_err(|error| format!("the window can't be tested: {error}"))?;
        let mut sink = MemorySink::with_memories(RecordCollector::default(), slots);
        let plugin = self.plugin.clone().with_window_from(0);
        let ended = self.run_channel(input, pieces, skip, plugin, &mut sink);
        Ok(self.run_of(sink.looker, ended, input.len()))
    }

    /// Decodes an input in a channel. Returns the errors, and the number of calls of the decoder.
    fn run_channel(
        &self,
        input: &Arc<[u8]>,
        pieces: &[usize],
        skip: bool,
        plugin: Plugin,
        sink: &mut (impl Sink + Send),
    ) -> (Vec<RunError>, u64) {
        let errors = Arc::new(Mutex::new(Vec::new()));
        let on_error = if skip { OnError::Skip } else { OnError::Fail };
        let mut channel = Channel {
            name: "test".to_owned(),
            source: Box::new(SingleObject {
                input: Some(input.clone()),
                pieces: pieces.to_vec(),
                companions: Vec::new(),
                is_planned: self.is_planned,
                parts: self.parts.clone(),
                has_ranges: false,
            }),
            plugin,
            options: self.options.clone(),
            limits: self.limits.clone(),
            policy: ErrorPolicy::new(on_error, OnPluginError::Fail, u64::MAX),
            max_record: self.max_record,
            linger: Duration::ZERO,
            batch: None,
            shuffle: None,
            resume: None,
            learning: Learning::FromOwn,
            cache: None,
            added_fields: Vec::new(),
            offsets: true,
            workers: Workers::new(1),
            inflates_in_background: false,
            observers: vec![Box::new(ErrorCollector(errors.clone()))],
        };
        let stats = ChannelStats::default();
        let outcome = channel.run(sink, &stats);
        let mut errors =
            errors.lock().map(|mut errors| std::mem::take(&mut *errors)).unwrap_or_default();
        if let Outcome::Failed(failure) = outcome
            && !(skip && failure.fault.message.starts_with(NOTHING_DELIVERED))
        {
            errors.push(run_error(&failure, Resumed::No));
        }
        (errors, stats.calls().iter().sum())
    }

    /// The run with these records.
    fn run_of(
        &self,
        records: RecordCollector,
        (errors, calls): (Vec<RunError>, u64),
        bytes: usize,
    ) -> DecodeRun {
        let RecordCollector { schema, metadata, records } = records;
        let metadata = serde_json::from_str(&metadata).unwrap_or_default();
        let run = DecodeRun { schema, metadata, records, errors };
        self.work.add(calls, bytes as u64, run.value_sizes());
        run
    }

    /// Number of instructions that a new stream takes before its first bytes.
    pub(super) fn set_up_instructions(&self) -> u64 {
        let count = self.ready.set_up_instructions(&self.info(&[]), &self.limits);
        // A decoder that refuses is reported by the first run.
        count.unwrap_or_default()
    }

    /// Opens a stream with these extensions. It has no size, as for a pipe; a
    /// [`decode`](Self::decode) sets it, as for a file. Both must give the same result.
    ///
    /// # Errors
    /// The decoder refuses its options, or fails.
    pub(super) fn open(&self, extensions: &[(String, String)]) -> Result<Stream, Fault> {
        self.open_at(extensions, None)
    }

    /// As [`open`](Self::open). With `saved`, the stream goes on where another one was saved.
    ///
    /// # Errors
    /// The decoder refuses its options or what was saved, or fails.
    pub(super) fn open_at(
        &self,
        extensions: &[(String, String)],
        saved: Option<&SavedState>,
    ) -> Result<Stream, Fault> {
        let info = self.info(extensions);
        match saved {
            Some(saved) => Stream::load(&self.plugin, &self.options, &info, &self.limits, saved),
            None => Stream::open(&self.plugin, &self.options, &info, &self.limits),
        }
    }

    fn info(&self, extensions: &[(String, String)]) -> StreamInfo {
        StreamInfo {
            channel: "test".to_owned(),
            epoch: 0,
            object: "input".to_owned(),
            max_record: self.max_record,
            offsets: true,
            facts: ObjectFacts::default(),
            extensions: {
                let planned = self.is_planned.then(planned_extension);
                planned.into_iter().chain(extensions.iter().cloned()).collect()
            },
        }
    }
}

/// Appends the records of a call whose chunk is the input from `at` on.
pub(super) fn collect(
    decoded: &DecodedRecords,
    input: &[u8],
    at: usize,
    records: &mut Vec<Record>,
) {
    for record in 0..decoded.records {
        let fields = decoded.columns.iter().map(|column| {
            let (offset, length) = column.get(record);
            let length = length as usize;
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

fn run_error(failure: &Failure, resumed: Resumed) -> RunError {
    RunError {
        offset: failure.position.offset.unwrap_or_default(),
        message: failure.fault.message.clone(),
        kind: failure.fault.kind,
        records: failure.position.record.unwrap_or_default() as usize,
        resumed,
    }
}

/// Collects the decode errors that are skipped.
struct ErrorCollector(Arc<Mutex<Vec<RunError>>>);

impl Observer for ErrorCollector {
    fn event(&self, _: Instant, event: &Event<'_>) {
        if let Event::DecodeErrorSkipped { failure, bytes } = *event
            && let Ok(mut errors) = self.0.lock()
        {
            let mut error = run_error(failure, Resumed::No);
            error.resumed = Resumed::At(error.offset + bytes);
            errors.push(error);
        }
    }
}

/// A source with one object in memory.
struct SingleObject {
    input: Option<Arc<[u8]>>,
    pieces: Vec<usize>,
    companions: Vec<Arc<[u8]>>,
    /// Whether the bytes are those of a plan.
    is_planned: bool,
    /// The parts of the plan, if their records are counted.
    parts: Arc<PlanParts>,
    /// Whether it can be read at any place.
    has_ranges: bool,
}

impl Source for SingleObject {
    fn next(&mut self) -> Result<SourceEvent, SourceError> {
        let Some(bytes) = self.input.take() else { return Ok(SourceEvent::End) };
        let size = Some(bytes.len() as u64);
        let pieces = std::mem::take(&mut self.pieces).into_iter();
        let has_ranges = self.has_ranges;
        let input = Box::new(InputInPieces { bytes, at: 0, pieces, comes_next: true, has_ranges });
        let companions = std::mem::take(&mut self.companions).into_iter().enumerate();
        let (is_planned, parts) = (self.is_planned, self.parts.clone());
        Ok(SourceEvent::Object(Object {
            epoch: 0,
            ordinal: 0,
            name: "input".to_owned(),
            identity: ObjectIdentity::default(),
            facts: ObjectFacts { size, is_planned, parts, ..ObjectFacts::default() },
            block: None,
            known: None,
            input,
            companions: companions.map(companion).collect(),
        }))
    }

    fn is_planned(&self) -> bool {
        // The kit itself makes plans, and shows their bytes in pieces.
        true
    }

    fn end_epoch(&mut self) {}
}

/// A companion with these bytes.
fn companion((number, bytes): (usize, Arc<[u8]>)) -> Companion {
    let (size, pieces) = (bytes.len() as u64, Vec::new().into_iter());
    let input = InputInPieces { bytes, at: 0, pieces, comes_next: true, has_ranges: true };
    Companion { name: format!("companion {}", number + 1), size, input: Box::new(input) }
}

/// An input that returns one piece per read. A piece is available only after the piece before was
/// decoded.
struct InputInPieces {
    bytes: Arc<[u8]>,
    at: usize,
    pieces: std::vec::IntoIter<usize>,
    /// Whether the next piece is available now.
    comes_next: bool,
    has_ranges: bool,
}

impl Input for InputInPieces {
    fn range(&self, range: Range<u64>) -> Option<Result<Box<dyn Input>, SourceError>> {
        let (bytes, pieces) = (self.bytes.clone(), Vec::new().into_iter());
        let at = usize::try_from(range.start).unwrap_or(usize::MAX).min(bytes.len());
        let input = Self { bytes, at, pieces, comes_next: true, has_ranges: true };
        self.has_ranges.then(|| Ok(Box::new(input) as Box<dyn Input>))
    }

    fn read(
        &mut self,
        buf: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<ReadOutcome, SourceError> {
        let is_there = std::mem::replace(&mut self.comes_next, true);
        if timeout == Some(Duration::ZERO) && !is_there {
            return Ok(ReadOutcome::Nothing);
        }
        let rest = &self.bytes[self.at..];
        if rest.is_empty() {
            return Ok(ReadOutcome::End);
        }
        let size = self.pieces.next().unwrap_or(rest.len()).max(1);
        let count = size.min(rest.len()).min(buf.len());
        buf[..count].copy_from_slice(&rest[..count]);
        self.at += count;
        self.comes_next = false;
        Ok(ReadOutcome::Bytes(count))
    }
}

/// Size of the memory of a batch, in bytes.
const BATCH_BYTES: usize = 256 << 10;

/// Keeps all records.
#[derive(Default)]
struct RecordCollector {
    schema: Option<Arc<[Field]>>,
    /// The facts as a JSON object; empty if there are none.
    metadata: String,
    records: Vec<Record>,
}

impl LookAtRecords for RecordCollector {
    fn schema(&mut self, fields: &Arc<[Field]>) {
        self.schema = Some(fields.clone());
    }

    fn batch(&mut self, memory: &[u8], batch: &Batch) -> Result<(), StopReason> {
        self.metadata.clone_from(&batch.start.metadata);
        for record in 0..batch.records {
            let fields = batch.columns.iter().map(|column| {
                let (offset, length) = column.get(record);
                let length = length as usize;
                (offset != ABSENT).then(|| memory[offset as usize..][..length].to_vec())
            });
            let start = batch.starts.get(record).copied().unwrap_or_default();
            self.records.push(Record { start, fields: fields.collect() });
        }
        Ok(())
    }
}
