//! The measured side: a channel of the host, through the sandbox, into a real ring that a reader in
//! another thread empties.

use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use pipemill::channel::{Channel, OnError, Outcome, Policy, Totals};
use pipemill::decode::{Engine, Limits, Plugin};
use pipemill::ring::RingSink;
use pipemill::source::Source;
use pipemill_ring::host::{Ring, RingConfig, Server};
use pipemill_ring::protocol::Mode;
use pipemill_ring::reader::{Event, Reader};

use crate::native::{SLOT, SLOTS};

/// Compiled once, as in a host that runs for hours.
pub struct Mill {
    plugin: Plugin,
    options: Vec<(String, String)>,
}

impl Mill {
    pub fn new(decoder: &str, options: &[(String, String)]) -> Result<Self> {
        let engine = Engine::new().map_err(|error| anyhow::anyhow!("{error:#}"))?;
        Ok(Self { plugin: Plugin::load(&engine, decoder, None)?, options: options.to_vec() })
    }

    /// Seconds from the first read to the last batch handed over, and what was done.
    pub fn run(&self, dir: &Path, source: Box<dyn Source>) -> Result<(f64, Totals)> {
        let ring = Ring::new(RingConfig {
            channel: "bench".into(),
            slots: SLOTS as u32,
            slot_bytes: SLOT,
            credits: 4,
            mode: Mode::Share,
            consumers: 1,
        })?;
        let dir = tempfile::tempdir_in(dir)?;
        let socket = dir.path().join("s/bench.sock");
        let server = Server::start(&socket, false, vec![ring.clone()])?;
        let consumer = consume(&socket)?;
        let channel = Channel {
            name: "bench".into(),
            source,
            plugin: self.plugin.clone(),
            options: self.options.clone(),
            limits: Limits::default(),
            policy: Policy::new(OnError::Fail, 0),
            max_record: 64 << 20,
            linger: Duration::from_millis(10),
            offsets: false,
        };
        let mut sink = RingSink::new(ring.clone(), "bench");
        let mut totals = Totals::default();
        let started = Instant::now();
        let outcome = channel.run(&mut sink, &mut totals);
        let seconds = started.elapsed().as_secs_f64();
        if let Outcome::Failed(failure) = outcome {
            bail!("{failure}");
        }
        finish(&ring, consumer)?;
        drop(server);
        Ok((seconds, totals))
    }
}

fn consume(socket: &Path) -> Result<JoinHandle<Result<u64>>> {
    let mut reader = Reader::connect(socket, "bench", Some(4))?;
    Ok(thread::spawn(move || {
        let mut records = 0;
        loop {
            match reader.next()? {
                Event::Batch(batch) => records += batch.records() as u64,
                Event::StreamEnd => return Ok(records),
                _ => {}
            }
        }
    }))
}

fn finish(ring: &Arc<Ring>, consumer: JoinHandle<Result<u64>>) -> Result<u64> {
    ring.end_stream();
    consumer.join().ok().context("the consumer panicked")?
}
