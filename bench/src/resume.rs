//! Resuming from a program's state: the time to the first record in the middle of a large file, and
//! the time of a state in Python.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use pipemill_ring::reader::{Event, Reader};

use crate::data::{self, Format};
use crate::latency::{KillOnDrop, connect};
use crate::python::words;
use crate::report::{BenchPaths, Report};
use crate::{ROUNDS, median};

const SIZE: u64 = 4 << 30;
const RECORD: usize = 1 << 10;
/// The position from which the run resumes.
const PLACE: u64 = SIZE / 10 * 9;

pub fn measure(paths: &BenchPaths, report: &mut Report) -> Result<()> {
    let path = data::file_of_size(paths, Format::TfRecord, RECORD, SIZE as usize)?;
    // Otherwise the disk would be busy with the file while the hosts start.
    std::fs::File::open(&path)?.sync_all()?;
    let measured = first_records(paths, report, &path);
    // The file is too large to be kept.
    std::fs::remove_file(&path)?;
    measured?;
    let input = data::file(paths, Format::TfRecord, RECORD)?;
    let times: Result<Vec<_>> = (0..ROUNDS).map(|_| state_dict(paths, &input)).collect();
    report.time("state_dict() in Python", median(times?) * 1e6, "us", 50.0);
    Ok(())
}

fn first_records(paths: &BenchPaths, report: &mut Report, input: &Path) -> Result<()> {
    let dir = tempfile::tempdir_in(&paths.dir)?;
    let state = state_at(paths, dir.path(), input)?;
    let times: Result<Vec<_>> =
        (0..ROUNDS).map(|_| first_record(paths, dir.path(), input, &state)).collect();
    let name = "exec of `run --resume` to the first record, at 90 % of 4 GiB";
    report.time(name, median(times?) * 1e3, "ms", 100.0);
    Ok(())
}

fn command(paths: &BenchPaths, dir: &Path, input: &Path) -> Result<(Command, PathBuf)> {
    let (config, socket) = (dir.join("pipemill.toml"), dir.join("s/bench.sock"));
    let text = format!(
        "socket = {socket:?}\n[[channel]]\nname = \"bench\"\nsource = {{ file = {input:?} }}\n\
         decoder = \"tfrecord\"\nbatch = 512\n"
    );
    std::fs::write(&config, text)?;
    let mut command = Command::new(&paths.pipemill);
    command.arg("run").arg("--config").arg(config).env("PIPEMILL_LOG", "error");
    Ok((command, socket))
}

/// The file with the state of a program that received all records before the position.
fn state_at(paths: &BenchPaths, dir: &Path, input: &Path) -> Result<PathBuf> {
    let (mut command, socket) = command(paths, dir, input)?;
    let _host = KillOnDrop(command.spawn().context("starting pipemill")?);
    let mut reader = connect(&socket)?;
    while next_record(&mut reader)? < PLACE / (RECORD as u64 + 16) {}
    let file = dir.join("state.json");
    std::fs::write(&file, serde_json::to_string(&reader.state()?)?)?;
    Ok(file)
}

/// Number of the first record of the next batch.
fn next_record(reader: &mut Reader) -> Result<u64> {
    match reader.next()? {
        Event::Batch(batch) => Ok(batch.first_record()),
        _ => bail!("the file ends early"),
    }
}

/// Seconds from the start of the host's process until a consumer has the first batch.
fn first_record(paths: &BenchPaths, dir: &Path, input: &Path, state: &Path) -> Result<f64> {
    let (mut command, socket) = command(paths, dir, input)?;
    let began = Instant::now();
    let _host =
        KillOnDrop(command.arg("--resume").arg(state).spawn().context("starting pipemill")?);
    let first = next_record(&mut connect(&socket)?)?;
    let seconds = began.elapsed().as_secs_f64();
    ensure!(first >= PLACE / (RECORD as u64 + 16), "it goes on at record {first}");
    Ok(seconds)
}

/// The median seconds of a call of `state_dict()`.
fn state_dict(paths: &BenchPaths, input: &Path) -> Result<f64> {
    let mut command = Command::new(&paths.python);
    command.arg(paths.scripts.join("state_dict.py")).arg(input);
    command.env("PIPEMILL", &paths.pipemill);
    Ok(words(&mut command)?.get(1).context("a figure")?.parse()?)
}
