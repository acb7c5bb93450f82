//! The measured side: a channel of the host that decodes in the sandbox into a real ring. A reader
//! in another thread consumes the ring.

use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use pipemill_channel::{
    Channel, ChannelStats, ErrorPolicy, Learning, OnError, OnPluginError, Outcome, Shuffle,
    StatsSnapshot, Workers,
};
use pipemill_decode::{Engine, Limits, Plugin};
use pipemill_delivery::RingSink;
use pipemill_ring::host::{Ring, RingConfig, Server, ServerConfig};
use pipemill_ring::protocol::Mode;
use pipemill_ring::reader::{Event, Reader};
use pipemill_source::Source;
use pipemill_types::BatchSize;
use tempfile::TempDir;

use crate::native::{SLOT, SLOTS};

/// The results of a run.
pub struct Ran {
    /// Seconds from the first read until the last batch is delivered.
    pub seconds: f64,
    /// Seconds from the first read until the consumer has the first batch.
    pub first: f64,
    pub totals: StatsSnapshot,
}

/// How batches are made and read.
#[derive(Clone, Copy, Default)]
pub struct Way {
    /// The number of records of each batch.
    pub batch: Option<BatchSize>,
    /// The order of the records.
    pub shuffle: Option<Shuffle>,
    /// Whether the consumer makes a state after each batch.
    pub keeps_states: bool,
    /// The number of workers; 0 stands for 1.
    pub workers: usize,
}

/// A decoder with its options. It is compiled once, as in a host that runs for hours.
pub struct BenchDecoder {
    plugin: Plugin,
    options: Vec<(String, String)>,
}

impl BenchDecoder {
    pub fn new(decoder: &str, options: &[(String, String)]) -> Result<Self> {
        let engine = Engine::new(&pipemill_builtin::BUILTINS)
            .map_err(|error| anyhow::anyhow!("{error:#}"))?;
        Ok(Self { plugin: Plugin::load(&engine, decoder, None)?, options: options.to_vec() })
    }

    /// Runs a channel to the end of its source.
    pub fn run(&self, dir: &Path, source: Box<dyn Source>) -> Result<Ran> {
        self.run_in_batches(dir, source, Way::default())
    }

    /// Runs a channel to the end of its source, with batches of this form.
    pub fn run_in_batches(&self, dir: &Path, source: Box<dyn Source>, way: Way) -> Result<Ran> {
        let Way { batch, shuffle, keeps_states, workers } = way;
        let BenchRing { ring, consumer, _server: server, _dir: dir } =
            BenchRing::new(dir, keeps_states)?;
        let mut channel = Channel {
            name: "bench".into(),
            source,
            plugin: self.plugin.clone(),
            options: self.options.clone(),
            limits: Limits::default(),
            policy: ErrorPolicy::new(OnError::Fail, OnPluginError::Fail, 0),
            max_record: 64 << 20,
            linger: Duration::from_millis(10),
            batch,
            shuffle,
            resume: None,
            learning: Learning::FromOwn,
            added_fields: Vec::new(),
            offsets: false,
            workers: Workers::new(workers),
            inflates_in_background: false,
            observers: Vec::new(),
            cache: None,
        };
        let mut sink = RingSink::new(ring.clone(), "bench", batch);
        let stats = ChannelStats::default();
        let started = Instant::now();
        let outcome = channel.run(&mut sink, &stats);
        let seconds = started.elapsed().as_secs_f64();
        if let Outcome::Failed(failure) = outcome {
            bail!("{failure}");
        }
        let first = finish(&ring, consumer)?.duration_since(started).as_secs_f64();
        drop((server, dir));
        Ok(Ran { seconds, first, totals: stats.snapshot() })
    }
}

/// A ring with a consumer.
struct BenchRing {
    ring: Arc<Ring>,
    consumer: JoinHandle<Result<Instant>>,
    _server: Server,
    _dir: TempDir,
}

impl BenchRing {
    fn new(dir: &Path, keeps_states: bool) -> Result<Self> {
        let ring = Ring::new(RingConfig {
            channel: "bench".into(),
            slots: SLOTS as u32,
            slot_bytes: SLOT,
            dedicated: RingConfig::FEW_DEDICATED,
            credits: 4,
            mode: Mode::Share,
            consumers: 1,
        })?;
        let dir = tempfile::tempdir_in(dir)?;
        let socket = dir.path().join("s/bench.sock");
        let server = Server::start(&socket, &ServerConfig::default(), vec![ring.clone()], None)?;
        let consumer = consume(&socket, keeps_states)?;
        Ok(Self { ring, consumer, _server: server, _dir: dir })
    }
}

/// Calls `decode`, which decodes into a ring and ends its stream, and returns the seconds and the
/// result.
pub fn into_ring<T>(dir: &Path, decode: impl FnOnce(&Arc<Ring>) -> Result<T>) -> Result<(f64, T)> {
    let BenchRing { ring, consumer, _server: server, _dir: dir } = BenchRing::new(dir, false)?;
    let started = Instant::now();
    let decoded = decode(&ring)?;
    let seconds = started.elapsed().as_secs_f64();
    finish(&ring, consumer)?;
    drop((server, dir));
    Ok((seconds, decoded))
}

/// Starts a consumer. Its thread returns when it has received its first batch.
fn consume(socket: &Path, keeps_states: bool) -> Result<JoinHandle<Result<Instant>>> {
    let mut reader = Reader::connect(socket, "bench", Some(4))?;
    Ok(thread::spawn(move || {
        let mut first = None;
        loop {
            match reader.next()? {
                Event::Batch(_) => {
                    first = first.or_else(|| Some(Instant::now()));
                    if keeps_states {
                        std::hint::black_box(reader.state()?);
                    }
                }
                Event::StreamEnd => return first.context("there was no batch"),
                _ => {}
            }
        }
    }))
}

fn finish(ring: &Arc<Ring>, consumer: JoinHandle<Result<Instant>>) -> Result<Instant> {
    ring.end_stream();
    consumer.join().ok().context("the consumer panicked")?
}
