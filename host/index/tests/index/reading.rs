//! Channels of real files, and their records.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use pipemill_channel::memory_sink::{LookAtRecords, MemorySink};
use pipemill_channel::{
    Batch, Channel, ChannelStats, ErrorPolicy, Learning, OnError, OnPluginError, Outcome, Resume,
    StopReason, Workers,
};
use pipemill_decode::{Cache, Engine, Limits, Plugin};
use pipemill_source::s3::Access;
use pipemill_source::{Compression, Paths, ReadSettings, Stop};
use pipemill_types::{ABSENT, Field};

use pipemill_index::{BuildSettings, Index, build};

/// A built-in decoder with its options.
pub type Decoder = (&'static str, &'static [(&'static str, &'static str)]);

fn plugin(name: &str) -> Plugin {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    static LOADED: Mutex<Vec<(String, Plugin)>> = Mutex::new(Vec::new());
    let engine = ENGINE.get_or_init(|| {
        let cache = Cache::at(concat!(env!("CARGO_TARGET_TMPDIR"), "/machine-code"));
        let engine = Engine::with(&pipemill_builtin::BUILTINS, Some(cache), Vec::new());
        engine.expect("an engine")
    });
    let mut loaded = LOADED.lock().expect("loading does not panic");
    if let Some((_, plugin)) = loaded.iter().find(|(known, _)| known == name) {
        return plugin.clone();
    }
    let plugin = Plugin::load(engine, name, None).expect("a decoder");
    loaded.push((name.to_owned(), plugin.clone()));
    plugin
}

/// A channel of all files in a folder, which skips errors.
pub fn channel(folder: &Path, (decoder, options): Decoder, workers: usize) -> Channel {
    let stop = Stop::new().expect("a stop");
    let names = vec![folder.as_os_str().to_owned()];
    let source = Paths::new(names, ReadSettings::default(), Access::default(), stop);
    let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Channel {
        name: "test".to_owned(),
        source: Box::new(source),
        plugin: plugin(decoder),
        options: options.collect(),
        limits: Limits::default(),
        policy: ErrorPolicy::new(OnError::Skip, OnPluginError::Fail, u64::MAX),
        max_record: 64 << 20,
        linger: Duration::ZERO,
        batch: None,
        shuffle: None,
        resume: None,
        learning: Learning::FromOwn,
        cache: None,
        added_fields: Vec::new(),
        offsets: false,
        workers: Workers::new(workers).with_section_bytes(20_000),
        inflates_in_background: false,
        observers: Vec::new(),
    }
}

/// The index of such a channel. `None` if it can't be made, because no record is sound.
pub fn index(channel: Channel, distance: u64) -> Option<Index> {
    let settings = BuildSettings {
        add_fields: Vec::new(),
        decoder: channel.plugin.name().to_owned(),
        sources: Vec::new(),
        compression: Compression::Auto,
        skips_errors: true,
        by_plan: None,
        distance,
        older: Vec::new(),
        progress: None,
        part: None,
    };
    let built = build(channel, settings, &ChannelStats::default()).ok().flatten();
    built.map(|(index, _)| index)
}

/// The fields of a record.
pub type Record = Vec<Option<Vec<u8>>>;

/// The records of a channel, with the numbers of their objects.
#[derive(Default)]
pub struct Records {
    pub fields: Option<Arc<[Field]>>,
    pub records: Vec<(u64, Record)>,
    /// Stops after this many records.
    pub most: usize,
}

impl LookAtRecords for Records {
    fn schema(&mut self, fields: &Arc<[Field]>) {
        self.fields = Some(fields.clone());
    }

    fn batch(&mut self, memory: &[u8], batch: &Batch) -> Result<(), StopReason> {
        for record in 0..batch.records {
            let value = |column: &pipemill_types::Column| {
                let (offset, length) = column.get(record);
                (offset != ABSENT).then(|| memory[offset as usize..][..length as usize].to_vec())
            };
            let fields = batch.columns.iter().map(value).collect();
            self.records.push((batch.start.position.object_number, fields));
        }
        if self.records.len() < self.most { Ok(()) } else { Err(StopReason::Stopped) }
    }
}

/// Runs a channel from a place on, for at most this many records and those of a batch more. The
/// error is its failure.
pub fn run(
    channel: Channel,
    resume: Option<Resume>,
    learning: Learning,
    most: usize,
) -> Result<Records, String> {
    let mut channel = Channel { resume, learning, ..channel };
    let mut sink = MemorySink::new(Records { most, ..Records::default() }, 1 << 16);
    match channel.run(&mut sink, &ChannelStats::default()) {
        Outcome::Failed(failure) => Err(failure.to_string()),
        _ => Ok(sink.looker),
    }
}
