//! The time to the first record, and the time of a whole run that does nothing.

use std::fs::OpenOptions;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use pipemill_ring::reader::{Event, Reader};

use crate::data::{self, Format};
use crate::report::{BenchPaths, Report};
use crate::{ROUNDS, median};

pub fn measure(paths: &BenchPaths, report: &mut Report) -> Result<()> {
    let input = data::bytes(&data::file(paths, Format::TfRecord, 1 << 10)?)?;
    let record = (1 << 10) + 16;
    for (name, size) in [("1 MiB", 1usize << 20), ("4 GiB", 4 << 30)] {
        let whole = size / record * record;
        let times: Result<Vec<_>> =
            (0..ROUNDS).map(|_| first_record(paths, &input, whole)).collect();
        let name = format!("first record of {name} in a FIFO");
        report.time(name, median(times?) * 1e3, "ms", 50.0);
    }
    for decoder in ["tfrecord", "csv"] {
        let times: Result<Vec<_>> = (0..ROUNDS).map(|_| start(paths, decoder)).collect();
        let name = format!("start to finish of `run … -- true`, {decoder}");
        report.time(name, median(times?) * 1e3, "ms", 100.0);
    }
    Ok(())
}

fn config(dir: &std::path::Path, decoder: &str) -> Result<std::path::PathBuf> {
    let path = dir.join("pipemill.toml");
    let text = format!(
        "socket = \"{0}/s/bench.sock\"\n[[channel]]\nname = \"bench\"\n\
         source = {{ fifo = \"{0}\", epochs = 1 }}\ndecoder = \"{decoder}\"\n",
        dir.display()
    );
    std::fs::write(&path, text)?;
    Ok(path)
}

/// Seconds from the first byte in the FIFO until a consumer has the first batch.
fn first_record(paths: &BenchPaths, input: &[u8], size: usize) -> Result<f64> {
    let dir = tempfile::tempdir_in(&paths.dir)?;
    let fifo = dir.path().join("bench_0");
    mkfifo(&fifo, Mode::S_IRWXU)?;
    let mut command = Command::new(&paths.pipemill);
    command.arg("run").arg("--config").arg(config(dir.path(), "tfrecord")?);
    let host = command.env("PIPEMILL_LOG", "error").spawn().context("starting pipemill")?;
    let mut host = KillOnDrop(host);
    let mut reader = connect(&dir.path().join("s/bench.sock"))?;
    thread::scope(|scope| {
        let (sent, started) = std::sync::mpsc::channel();
        scope.spawn(move || -> Result<()> {
            let mut pipe = OpenOptions::new().write(true).open(&fifo)?;
            sent.send(Instant::now())?;
            let mut left = size;
            while left > 0 {
                let part = left.min(input.len());
                // The reader closes early, after its first record.
                if pipe.write_all(&input[..part]).is_err() {
                    break;
                }
                left -= part;
            }
            Ok(())
        });
        let event = reader.next()?;
        let got = Instant::now();
        let Event::Batch(_) = event else { bail!("no batch came first") };
        let seconds = (got - started.recv()?).as_secs_f64();
        drop(event);
        host.0.kill()?;
        Ok(seconds)
    })
}

pub fn connect(socket: &std::path::Path) -> Result<Reader> {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        match Reader::connect(socket, "bench", None) {
            Ok(reader) => return Ok(reader),
            Err(error) if Instant::now() > until => return Err(error.into()),
            Err(_) => thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// Seconds of a whole run whose command does nothing: load the decoder, create the ring, start the
/// command, and wait for its end.
fn start(paths: &BenchPaths, decoder: &str) -> Result<f64> {
    let dir = tempfile::tempdir_in(&paths.dir)?;
    let config = config(dir.path(), decoder)?;
    let started = Instant::now();
    let mut command = Command::new(&paths.pipemill);
    command.arg("run").arg("--config").arg(config).args(["--", "true"]);
    let status = command.env("PIPEMILL_LOG", "off").stdin(Stdio::null()).status()?;
    anyhow::ensure!(status.success(), "run -- true: {status}");
    Ok(started.elapsed().as_secs_f64())
}

/// A child process that is killed when this is dropped.
pub struct KillOnDrop(pub Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // This fails only if the process has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
