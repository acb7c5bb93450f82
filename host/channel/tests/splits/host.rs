//! Runs a channel of the host over objects in memory, and returns all that can be seen of it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use pipemill_channel::{
    Channel, ChannelStats, ErrorPolicy, Learning, OnError, OnPluginError, Outcome, RecordOrder,
    Resume, Shuffle, Workers,
};
use pipemill_decode::{Cache, Engine, Limits, Plugin};
use pipemill_source::SkippedRecords;
use pipemill_source::cache::{CacheSettings, RecordCaches};
use pipemill_types::{AddedField, BatchSize, Field};
use serde_json::Value;

use crate::batches::Cut;
use crate::sink::{Collector, Kept};
use crate::source::{Objects, first_in_index};

/// The input of a decoder, and the channel's settings.
#[derive(Debug, Clone)]
pub struct Job {
    /// A built-in's name, or a path.
    pub decoder: &'static str,
    pub options: Vec<(&'static str, String)>,
    pub objects: Vec<Bytes>,
    pub on_error: Bad,
    pub max_record: u64,
    pub max_errors: u64,
}

/// Bytes that a failed test shows as text.
#[derive(Clone, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self.0[..self.0.len().min(600)];
        write!(f, "{} bytes b\"{}\"", self.0.len(), shown.escape_ascii())
    }
}

/// How decode errors are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bad {
    Fail,
    Skip,
    Quarantine,
}

/// How the bytes arrive, and the memories that records go to.
#[derive(Debug, Clone)]
pub struct Setup {
    pub pieces: Vec<usize>,
    /// Whether each piece is there as soon as the one before was read, so that no read waits.
    pub come_at_once: bool,
    pub slot: usize,
    pub index_inside: bool,
    /// Whether decoders may map the memories.
    pub is_shared: bool,
    pub has_demand: bool,
    /// Number of objects that are decoded at the same time.
    pub workers: usize,
    /// The order in which several workers' records leave.
    pub order: RecordOrder,
    /// With several workers: bytes of the sections that each object is divided into. 0: it has one.
    pub section: usize,
    /// Whether objects can be read concurrently.
    pub rereads: bool,
    /// Whether an object can be read in several places at a time.
    pub has_places: bool,
    /// Number of memories that may be filled concurrently with the next batch.
    pub extra: usize,
    /// Offset in each object at which reading fails.
    pub fails_at: Option<usize>,
    /// Batches after which the consumer wants no more of the epoch.
    pub leaves_after: Option<usize>,
    /// CPU time of a call of the decoder. `None`: the default of a configuration.
    pub call_timeout: Option<Duration>,
    /// The number of records of each batch.
    pub batch: Option<BatchSize>,
    /// The window in which records are shuffled, if batches have a size.
    pub shuffle: Option<Shuffle>,
    /// The place to resume at.
    pub resume: Option<Resume>,
    /// The records that are skipped, by their numbers in an index.
    pub skipped: SkippedRecords,
    /// Bytes of an object after which the decoder's state is saved. `None`: the objects have no
    /// identity, as pipes.
    pub saves: Option<u64>,
    /// Whether the channel has a cache of records.
    pub is_cached: bool,
    /// The folder of this cache. The objects have an identity then.
    pub cache: Option<PathBuf>,
}

impl Setup {
    /// In one piece, into memory that is never full.
    pub fn in_one_piece() -> Self {
        Self {
            pieces: Vec::new(),
            come_at_once: false,
            slot: 8 << 20,
            index_inside: false,
            is_shared: false,
            has_demand: false,
            workers: 1,
            order: RecordOrder::Strict,
            section: 0,
            rereads: true,
            has_places: false,
            extra: 0,
            fails_at: None,
            leaves_after: None,
            call_timeout: None,
            batch: None,
            shuffle: None,
            resume: None,
            skipped: SkippedRecords::default(),
            saves: None,
            is_cached: false,
            cache: None,
        }
    }
}

impl Setup {
    /// Whether the host adds fields. They are checked, and removed before records are compared.
    /// They count in a window's bytes, so the order of one differs with them.
    pub fn adds_fields(&self) -> bool {
        self.shuffle.is_none() && (self.slot + self.section + self.extra) % 2 == 1
    }

    /// The fields of a run, with those that the host adds.
    pub fn with_added(&self, own: &[Field]) -> Arc<[Field]> {
        let added = if self.adds_fields() { AddedField::ALL.as_slice() } else { &[] };
        AddedField::after(&own.into(), added).expect("no decoder has such names")
    }
}

/// All that can be seen from outside, except how records were divided among batches.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    pub schema: Option<Vec<Field>>,
    pub records: Vec<Kept>,
    /// The batches of a fixed size. Their records are not in `records`.
    pub cuts: Vec<Cut>,
    /// The epochs that ended, and whether each ended early.
    pub epochs: Vec<(u32, bool)>,
    pub decode_errors: u64,
    pub quarantined: Vec<Value>,
    pub end: End,
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    Ended,
    Failed {
        object: Option<String>,
        offset: Option<u64>,
        record: Option<u64>,
        kind: &'static str,
        message: String,
        remedy: String,
    },
}

/// Plugins are compiled once, and the machine code is kept for the next run.
pub fn plugin(name: &str) -> Plugin {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    static PLUGINS: Mutex<BTreeMap<String, Plugin>> = Mutex::new(BTreeMap::new());
    let engine = ENGINE.get_or_init(|| {
        let cache = Cache::at(concat!(env!("CARGO_TARGET_TMPDIR"), "/machine-code"));
        let engine = Engine::with(&pipemill_builtin::BUILTINS, Some(cache), Vec::new());
        engine.expect("an engine")
    });
    let mut plugins = PLUGINS.lock().expect("loading does not panic");
    let load = || Plugin::load(engine, name, None).expect("a decoder");
    plugins.entry(name.to_owned()).or_insert_with(load).clone()
}

/// Runs the job.
pub fn run(job: &Job, way: &Setup) -> Observed {
    run_counted(job, way).0
}

/// Runs the job. Also returns the number of calls of the decoder.
pub fn run_counted(job: &Job, way: &Setup) -> (Observed, u64) {
    let mut sink = Collector::new(way);
    let folder = tempfile::tempdir().expect("a folder for the quarantine");
    let quarantine = folder.path().join("bad.jsonl");
    let on_error = match job.on_error {
        Bad::Fail => OnError::Fail,
        Bad::Skip => OnError::Skip,
        Bad::Quarantine => OnError::Quarantine(quarantine.clone()),
    };
    let options = job.options.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    let mut channel = Channel {
        name: "test".to_owned(),
        source: Box::new(Objects::new(&job.objects, way)),
        // However small the chunks are.
        plugin: plugin(job.decoder).with_window_from(0).with_save_distance(way.saves),
        options: options.collect(),
        limits: Limits {
            call_timeout: way.call_timeout.unwrap_or(Limits::default().call_timeout),
            ..Limits::default()
        },
        policy: ErrorPolicy::new(on_error, OnPluginError::Fail, job.max_errors),
        max_record: job.max_record,
        linger: Duration::ZERO,
        batch: way.batch,
        shuffle: way.shuffle,
        resume: way.resume.clone(),
        learning: Learning::FromOwn,
        cache: way.cache.as_ref().and_then(|path| {
            let settings = CacheSettings { path: path.clone(), size: 1 << 30 };
            RecordCaches::default().open(&settings, "test", String::new()).expect("a folder")
        }),
        added_fields: if way.adds_fields() { AddedField::ALL.into() } else { Vec::new() },
        offsets: true,
        workers: Workers::new(way.workers)
            .in_order(way.order)
            .with_section_bytes(way.section.max(1))
            // With demand, other threads make even copies of a few bytes.
            .with_short_copy(if way.has_demand { 0 } else { 1_000 }),
        inflates_in_background: false,
        observers: Vec::new(),
    };
    let stats = ChannelStats::default();
    let outcome = channel.run(&mut sink, &stats);
    let totals = stats.snapshot();
    if sink.epochs != [(0, true)] && way.batch.is_none() {
        // Otherwise some were decoded and not wanted any more.
        assert_eq!(totals.records, sink.records.len() as u64, "the count of records");
    }
    assert_eq!(totals.batches, sink.batches as u64, "the count of batches");
    let observed = Observed {
        schema: sink.schema.as_ref().map(|fields| fields.to_vec()),
        records: sink.records,
        cuts: sink.cuts,
        epochs: sink.epochs,
        decode_errors: totals.decode_errors,
        quarantined: lines(&quarantine),
        end: end(outcome),
    };
    let observed = if job.tells_lines(way) { observed } else { observed.without_lines() };
    (observed, stats.calls().iter().sum())
}

/// Number in an index of the first record of the object with this name.
fn first_of(object: &str) -> u64 {
    let ordinal = object.trim_start_matches("object ").parse();
    first_in_index(ordinal.expect("the number of an object"))
}

/// Number of the object's records before this one that are not skipped.
fn kept_before(skipped: &SkippedRecords, object: &str, record: u64) -> u64 {
    let first = first_of(object);
    skipped.kept_before(first + record) - skipped.kept_before(first)
}

/// The added fields in the list of a message: runs with and without them are compared.
const ADDED: &str = ", __index__ (int64), __object__ (utf8)";

/// A message of the `csv` decoder without the facts that only a decoder knows which has seen the
/// first lines: the number of the line, the row that it is compared with, whether it is the first,
/// and whether it is near the first.
fn without_lines(message: &str) -> String {
    let mut message = message.replace("; if this row is the header, set header = true", "");
    for hint in ["; if the first ", "; a delimiter in a value needs quotes"] {
        message.truncate(message.find(hint).unwrap_or(message.len()));
    }
    let message = match (message.find(", as "), message.find(", found")) {
        (Some(from), Some(to)) if from < to => message[..from].to_owned() + &message[to..],
        _ => message,
    };
    let mut words: Vec<String> = message.split(' ').map(str::to_owned).collect();
    while let Some(at) = words.iter().position(|word| word == "line") {
        let is_inside = at > 0 && words[at - 1] == "in";
        let at = if is_inside { at - 1 } else { at };
        let end = words.len().min(at + if is_inside { 3 } else { 2 });
        let last = words.drain(at..end).next_back();
        if is_inside && last.is_some_and(|number| number.ends_with(',')) && at > 0 {
            words[at - 1].push(',');
        }
    }
    words.retain(|word| !word.is_empty());
    words.join(" ")
}

fn end(outcome: Outcome) -> End {
    match outcome {
        Outcome::Ended => End::Ended,
        Outcome::Stopped | Outcome::Restart => panic!("nobody asked for that"),
        // The excerpt of the bytes is left out: its length depends on the bytes that had arrived.
        Outcome::Failed(failure) => End::Failed {
            object: failure.position.object,
            offset: failure.position.offset,
            record: failure.position.record,
            kind: failure.fault.kind.word(),
            message: failure.fault.message.replace(ADDED, ""),
            remedy: failure.fault.remedy,
        },
    }
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON object a line")).collect()
}

impl Job {
    /// Whether messages have the numbers of lines. A worker that decodes a section has not counted
    /// the lines before it.
    pub fn tells_lines(&self, way: &Setup) -> bool {
        self.decoder != "csv" || way.section == 0 || way.workers == 1
    }
}

impl Observed {
    /// With the messages of a decoder that has not seen the first lines.
    pub fn without_lines(mut self) -> Self {
        if let End::Failed { message, .. } = &mut self.end {
            *message = without_lines(message);
        }
        for entry in &mut self.quarantined {
            if let Some(Value::String(reason)) = entry.get_mut("reason") {
                *reason = without_lines(reason);
            }
        }
        self
    }

    /// The same without the records that are skipped: the others are counted without them.
    pub fn without(mut self, skipped: &SkippedRecords) -> Self {
        self.records.retain(|one| !skipped.contains(first_of(&one.object) + one.number));
        for record in &mut self.records {
            record.number = kept_before(skipped, &record.object, record.number);
        }
        if let End::Failed { object: Some(object), record: Some(record), .. } = &mut self.end {
            *record = kept_before(skipped, object, *record);
        }
        for entry in &mut self.quarantined {
            let object = entry["object"].as_str().expect("an object").to_owned();
            if let Some(record) = entry["record"].as_u64() {
                entry["record"] = kept_before(skipped, &object, record).into();
            }
        }
        self
    }

    /// The first difference, if there is one.
    pub fn difference(&self, other: &Self) -> Option<String> {
        let pair = |what: &str, a: &dyn fmt::Debug, b: &dyn fmt::Debug| {
            let (a, b) = (format!("{a:?}"), format!("{b:?}"));
            let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
            let from = same.saturating_sub(300);
            let differs = |text: &str| text.chars().skip(from).take(1_000).collect::<String>();
            Some(format!("{what}: {}\nagainst: {}", differs(&a), differs(&b)))
        };
        let counts = (self.records.len(), other.records.len());
        if let Some(at) = self.records.iter().zip(&other.records).position(|(a, b)| a != b) {
            return pair(
                &format!("record {at} of {counts:?}"),
                &self.records[at],
                &other.records[at],
            );
        }
        if counts.0 != counts.1 {
            let missing = self.records.get(counts.1).or(other.records.get(counts.0));
            return pair("records", &(counts, missing), &"");
        }
        if self.epochs != other.epochs {
            return pair("epochs", &self.epochs, &other.epochs);
        }
        if self.end != other.end {
            return pair("end", &self.end, &other.end);
        }
        if self.quarantined != other.quarantined {
            return pair("quarantined", &self.quarantined, &other.quarantined);
        }
        if self.decode_errors != other.decode_errors {
            return pair("bad places", &self.decode_errors, &other.decode_errors);
        }
        if self.schema != other.schema { pair("schema", &self.schema, &other.schema) } else { None }
    }
}
