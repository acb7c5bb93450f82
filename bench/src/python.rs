//! Rates of a Python process: batches through pipemill, compared with `read` and `struct` on the
//! raw pipe.

use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tempfile::TempDir;

use crate::data::{self, Format};
use crate::fifo;
use crate::report::{BenchPaths, Report};
use crate::{ROUNDS, in_turns, median};

/// What a batch may cost a Python process.
const HAND_OVER_MICROSECONDS: f64 = 10.0;

pub fn measure(paths: &BenchPaths, report: &mut Report) -> Result<()> {
    for (size, record) in [("1 KiB", 1 << 10), ("100 KiB", 100 << 10)] {
        let path = data::file(paths, Format::TfRecord, record)?;
        let input = Arc::new(data::bytes(&path)?);
        let bytes = input.len() as f64 / 1e9;
        let file = format!("{{ file = \"{}\" }}", path.display());
        let (ours, raw) =
            in_turns(|| ours(paths, "batches.py", &file, None), || raw(paths, &input))?;
        let baseline = "Python, read + struct on a pipe";
        report.rate(
            format!("file to Python batches, {size}"),
            bytes / ours,
            "GB/s",
            baseline,
            bytes / raw,
            Some(2.0),
        );
        let (piped, raw) = in_turns(
            || self::ours(paths, "batches.py", "", Some(&input)),
            || self::raw(paths, &input),
        )?;
        report.rate(
            format!("fifo to Python batches, {size}"),
            bytes / piped,
            "GB/s",
            baseline,
            bytes / raw,
            None,
        );
        let (each, raw) =
            in_turns(|| self::ours(paths, "records.py", &file, None), || self::raw(paths, &input))?;
        report.rate(
            format!("file to Python records, {size}"),
            bytes / each,
            "GB/s",
            baseline,
            bytes / raw,
            None,
        );
    }
    hand_over(paths, report)?;
    first_batch(paths, report)
}

/// The CPU time of the consumer's process per batch, all threads and system calls included: of one
/// that takes batches, and of one that makes the array of their field, too. The batches are as small
/// as possible, so that other costs matter little. Waiting for the host is not included. The least
/// is one receive and two sends, in Python.
fn hand_over(paths: &BenchPaths, report: &mut Report) -> Result<()> {
    let path = data::file(paths, Format::TfRecord, 1 << 10)?;
    let file =
        format!("{{ file = \"{}\" }}\n[channel.ring]\nslot_size = \"64KiB\"", path.display());
    let (mut batches, mut arrays, mut least) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        for (times, argument) in [(&mut batches, None), (&mut arrays, Some("array"))] {
            let dir = tempfile::tempdir_in(&paths.dir)?;
            let text = words(host(paths, "handover.py", &file, &dir)?.args(argument))?;
            let number =
                |at: usize| -> Result<f64> { Ok(text.get(at).context("a figure")?.parse()?) };
            times.push(number(3)? / number(1)? * 1e6);
            least.push(number(4)? * 1e6);
        }
    }
    for (name, times) in [
        ("a batch handed over to Python, CPU time", batches),
        ("a batch and the array of its field, CPU time", arrays),
        ("the least: a receive, two sends in Python", least),
    ] {
        report.time(name, median(times), "us", HAND_OVER_MICROSECONDS);
    }
    Ok(())
}

/// The time that a program waits for the package, and for its first batch.
fn first_batch(paths: &BenchPaths, report: &mut Report) -> Result<()> {
    let path = data::file(paths, Format::TfRecord, 1 << 10)?;
    let (mut imports, mut batches) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let mut command = Command::new(&paths.python);
        command.arg(paths.scripts.join("first_batch.py")).arg(&path);
        command.env("PIPEMILL", &paths.pipemill);
        let text = words(&mut command)?;
        let number = |at: usize| -> Result<f64> { Ok(text.get(at).context("a figure")?.parse()?) };
        imports.push(number(1)? * 1e3);
        batches.push(number(2)? * 1e3);
    }
    report.time("import pipemill", median(imports), "ms", 30.0);
    report.time("pipemill.open() to the first batch", median(batches), "ms", 250.0);
    Ok(())
}

fn ours(
    paths: &BenchPaths,
    script: &str,
    source: &str,
    piped: Option<&Arc<Vec<u8>>>,
) -> Result<f64> {
    let dir = tempfile::tempdir_in(&paths.dir)?;
    let mut source = source.to_owned();
    let mut writer = None;
    if let Some(input) = piped {
        let fifo = dir.path().join("bench_0");
        mkfifo(&fifo, Mode::S_IRWXU)?;
        writer = Some(fifo::write(&fifo, input.clone()));
        source = format!("{{ fifo = \"{}\", epochs = 1 }}", dir.path().display());
    }
    let seconds = seconds_of(&mut host(paths, script, &source, &dir)?)?;
    if let Some(writer) = writer {
        writer.join().ok().context("the writer panicked")??;
    }
    Ok(seconds)
}

/// A host that runs a script as its command. `source` may have other keys of the channel after it.
fn host(paths: &BenchPaths, script: &str, source: &str, dir: &TempDir) -> Result<Command> {
    let config = dir.path().join("pipemill.toml");
    let socket = dir.path().join("s/bench.sock");
    std::fs::write(
        &config,
        format!(
            "socket = {socket:?}\n[[channel]]\nname = \"bench\"\ndecoder = \"tfrecord\"\nsource = {source}\n"
        ),
    )?;
    let mut command = Command::new(&paths.pipemill);
    command.arg("run").arg("--config").arg(&config).arg("--").arg(&paths.python);
    command.arg(paths.scripts.join(script)).env("PIPEMILL_LOG", "error");
    Ok(command)
}

fn raw(paths: &BenchPaths, input: &Arc<Vec<u8>>) -> Result<f64> {
    let dir = tempfile::tempdir_in(&paths.dir)?;
    let fifo = dir.path().join("raw");
    mkfifo(&fifo, Mode::S_IRWXU)?;
    let writer = fifo::write(&fifo, input.clone());
    let mut command = Command::new(&paths.python);
    command.arg(paths.scripts.join("raw.py")).arg(&fifo);
    let seconds = seconds_of(&mut command)?;
    writer.join().ok().context("the writer panicked")??;
    Ok(seconds)
}

/// The seconds that the script itself measured: the third word of the last line that it prints.
fn seconds_of(command: &mut Command) -> Result<f64> {
    Ok(words(command)?.get(2).context("no figures printed")?.parse()?)
}

/// The words of the last line that a script prints. Libraries may print lines before it.
pub fn words(command: &mut Command) -> Result<Vec<String>> {
    let done = command
        .stderr(Stdio::inherit())
        .output()
        .context("starting Python; `make bench` sets it up")?;
    ensure!(done.status.success(), "{command:?}: {}", done.status);
    let text = String::from_utf8(done.stdout)?;
    let last = text.lines().last().unwrap_or_default();
    Ok(last.split_whitespace().map(str::to_owned).collect())
}
