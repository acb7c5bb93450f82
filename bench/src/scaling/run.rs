//! A run of a host over a point's channels, with a consumer for each that takes its batches.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use pipemill_ring::reader::{Event, Reader};

use super::axes::Point;
use crate::latency::KillOnDrop;
use crate::report::BenchPaths;

/// Time limit for the start of a host.
const START: Duration = Duration::from_secs(120);

/// The costs of a run.
pub struct Ran {
    /// CPU seconds of the host, from its start to the end of the last channel.
    pub cpu: f64,
    /// Wall-clock seconds of the same.
    pub wall: f64,
    /// Seconds from the host's start until each channel had its first batch.
    pub start: f64,
}

/// Runs a host over the point's channels. Returns its message if it ends before it serves.
pub fn serve(paths: &BenchPaths, point: &Point, epochs: u32) -> Result<Result<Ran, String>> {
    let dir = tempfile::tempdir_in(&paths.dir)?;
    let socket = dir.path().join("s/sock");
    let config = dir.path().join("pipemill.toml");
    std::fs::write(&config, format!("socket = {socket:?}\n{}", point.config(epochs)))?;
    let mut command = Command::new(&paths.pipemill);
    command.arg("run").arg("--config").arg(&config).stdin(Stdio::null()).stderr(Stdio::piped());
    command.env("PIPEMILL_LOG", "error").env("PIPEMILL_CACHE", paths.dir.join("scaling/cache"));
    let began = Instant::now();
    let mut host = KillOnDrop(command.spawn().context("starting pipemill")?);
    let mut readers = Vec::new();
    for name in &point.channels {
        match connect(&socket, name, &mut host.0)? {
            Some(reader) => readers.push(reader),
            None => return Ok(Err(last_words(&mut host.0))),
        }
    }
    let (firsts, first) = channel();
    let threads: Vec<_> =
        readers.into_iter().map(|reader| consume(reader, firsts.clone())).collect();
    drop(firsts);
    let outcomes: Vec<Result<()>> =
        threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect();
    let wall = began.elapsed().as_secs_f64();
    let cpu = cpu_seconds(host.0.id());
    if outcomes.iter().any(Result::is_err) {
        return Ok(Err(last_words(&mut host.0)));
    }
    let start = last(&first, point.channels.len())?.duration_since(began).as_secs_f64();
    Ok(Ok(Ran { cpu: cpu?, wall, start }))
}

/// A consumer, or `None` if the host has ended.
fn connect(socket: &std::path::Path, name: &str, host: &mut Child) -> Result<Option<Reader>> {
    let until = Instant::now() + START;
    loop {
        match Reader::connect(socket, name, None) {
            Ok(reader) => return Ok(Some(reader)),
            Err(_) if host.try_wait()?.is_some() => return Ok(None),
            Err(error) if Instant::now() > until => return Err(error.into()),
            Err(_) => thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Takes all batches in a thread. Reports when the first one came.
fn consume(mut reader: Reader, first: Sender<Instant>) -> thread::JoinHandle<Result<()>> {
    thread::spawn(move || {
        let mut first = Some(first);
        loop {
            match reader.next()? {
                Event::Batch(_) => {
                    if let Some(first) = first.take() {
                        first.send(Instant::now())?;
                    }
                }
                Event::EpochEnd(_) => {}
                Event::StreamEnd => return Ok(()),
            }
        }
    })
}

/// The time when the last of the channels had its first batch.
fn last(first: &Receiver<Instant>, channels: usize) -> Result<Instant> {
    let times: Vec<_> = first.try_iter().collect();
    ensure!(times.len() == channels, "{} of {channels} channels had a batch", times.len());
    times.into_iter().max().context("no channel")
}

/// The CPU time of a process that has not been waited for, even if it has ended.
fn cpu_seconds(process: u32) -> Result<f64> {
    let clock = clock_getcpuclockid(Pid::from_raw(process as i32))?;
    Ok(Duration::from(clock_gettime(clock)?).as_secs_f64())
}

fn last_words(host: &mut Child) -> String {
    let mut text = String::new();
    if let Some(stderr) = &mut host.stderr {
        // A process that can't be read is left out.
        let _ = stderr.read_to_string(&mut text);
    }
    text.lines().last().unwrap_or("it ended without a message").to_owned()
}
