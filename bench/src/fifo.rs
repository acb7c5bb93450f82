//! From a FIFO into the ring, against a loop that only reads the same FIFO.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use anyhow::{Context, Result};
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use pipemill_source::{Compression, FifoSettings, Fifos, Stop};

use crate::data::{self, Format};
use crate::host::BenchDecoder;
use crate::in_turns;
use crate::report::{BenchPaths, Report};

const PIPE: usize = 1 << 20;

pub fn measure(paths: &BenchPaths, report: &mut Report) -> Result<()> {
    let cases = [
        ("fifo, recordio 1 KiB", Format::RecordIo, 1 << 10, Some(0.90)),
        ("fifo, tfrecord 1 KiB, full CRC", Format::TfRecord, 1 << 10, Some(0.90)),
        ("fifo, recordio 100 KiB", Format::RecordIo, 100 << 10, None),
    ];
    for (name, format, record, bar) in cases {
        let input = Arc::new(data::bytes(&data::file(paths, format, record)?)?);
        let decoder = BenchDecoder::new(format.decoder(), &[])?;
        let (ours, bare) =
            in_turns(|| through_host(paths, &decoder, &input), || bare_reads(paths, &input))?;
        let bytes = input.len() as f64 / 1e9;
        report.rate(name, bytes / ours, "GB/s", "bare reads of 64 KiB", bytes / bare, bar);
    }
    Ok(())
}

/// Starts a thread that writes the input to the FIFO as fast as it can.
pub fn write(fifo: &Path, input: Arc<Vec<u8>>) -> JoinHandle<Result<()>> {
    let fifo = fifo.to_owned();
    thread::spawn(move || {
        let mut pipe = OpenOptions::new().write(true).open(fifo)?;
        for part in input.chunks(PIPE) {
            pipe.write_all(part)?;
        }
        Ok(())
    })
}

fn fifo(paths: &BenchPaths) -> Result<(tempfile::TempDir, PathBuf)> {
    let dir = tempfile::tempdir_in(&paths.dir)?;
    let path = dir.path().join("bench_0");
    mkfifo(&path, Mode::S_IRWXU)?;
    Ok((dir, path))
}

fn through_host(paths: &BenchPaths, decoder: &BenchDecoder, input: &Arc<Vec<u8>>) -> Result<f64> {
    let (dir, path) = fifo(paths)?;
    let writer = write(&path, input.clone());
    let settings = FifoSettings {
        dir: dir.path().to_owned(),
        channel: "bench".into(),
        first_epoch: 0,
        end_epoch: Some(1),
        open_timeout: None,
        idle_timeout: None,
        pipe_size: PIPE,
        compression: Compression::None,
        epoch_file: None,
    };
    let source = Fifos::new(settings, Stop::new()?);
    let seconds = decoder.run(&paths.dir, Box::new(source))?.seconds;
    writer.join().ok().context("the writer panicked")??;
    Ok(seconds)
}

fn bare_reads(paths: &BenchPaths, input: &Arc<Vec<u8>>) -> Result<f64> {
    let (_dir, path) = fifo(paths)?;
    let writer = write(&path, input.clone());
    let started = Instant::now();
    let mut pipe = File::open(&path)?;
    fcntl(&pipe, FcntlArg::F_SETPIPE_SZ(PIPE as i32))?;
    let mut buf = vec![0; 64 << 10];
    while pipe.read(&mut buf)? > 0 {}
    let seconds = started.elapsed().as_secs_f64();
    writer.join().ok().context("the writer panicked")??;
    Ok(seconds)
}
