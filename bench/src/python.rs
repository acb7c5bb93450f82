//! To a Python process: through pipemill in batches, against `read` and `struct` on the raw pipe.

use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::data::{self, Format};
use crate::fifo;
use crate::in_turns;
use crate::report::{Place, Report};

pub fn measure(place: &Place, report: &mut Report) -> Result<()> {
    for (size, record) in [("1 KiB", 1 << 10), ("100 KiB", 100 << 10)] {
        let path = data::file(place, Format::TfRecord, record)?;
        let input = Arc::new(data::bytes(&path)?);
        let bytes = input.len() as f64 / 1e9;
        let file = format!("{{ file = \"{}\" }}", path.display());
        let (ours, raw) =
            in_turns(|| ours(place, "batches.py", &file, None), || raw(place, &input))?;
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
            || self::ours(place, "batches.py", "", Some(&input)),
            || self::raw(place, &input),
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
            in_turns(|| self::ours(place, "records.py", &file, None), || self::raw(place, &input))?;
        report.rate(
            format!("file to Python records, {size}"),
            bytes / each,
            "GB/s",
            baseline,
            bytes / raw,
            None,
        );
    }
    Ok(())
}

fn ours(place: &Place, script: &str, source: &str, piped: Option<&Arc<Vec<u8>>>) -> Result<f64> {
    let dir = tempfile::tempdir_in(&place.dir)?;
    let mut source = source.to_owned();
    let mut writer = None;
    if let Some(input) = piped {
        let fifo = dir.path().join("bench_0");
        mkfifo(&fifo, Mode::S_IRWXU)?;
        writer = Some(fifo::write(&fifo, input.clone()));
        source = format!("{{ fifo = \"{}\", epochs = 1 }}", dir.path().display());
    }
    let config = dir.path().join("pipemill.toml");
    std::fs::write(
        &config,
        format!(
            "socket = \"{}\"\n[[channel]]\nname = \"bench\"\nsource = {source}\ndecoder = \"tfrecord\"\n",
            dir.path().join("s/bench.sock").display()
        ),
    )?;
    let mut command = Command::new(&place.pipemill);
    command.arg("run").arg("--config").arg(&config).arg("--").arg(&place.python);
    command.arg(place.scripts.join(script)).env("PIPEMILL_LOG", "error");
    let seconds = seconds_of(&mut command)?;
    if let Some(writer) = writer {
        writer.join().ok().context("the writer panicked")??;
    }
    Ok(seconds)
}

fn raw(place: &Place, input: &Arc<Vec<u8>>) -> Result<f64> {
    let dir = tempfile::tempdir_in(&place.dir)?;
    let fifo = dir.path().join("raw");
    mkfifo(&fifo, Mode::S_IRWXU)?;
    let writer = fifo::write(&fifo, input.clone());
    let mut command = Command::new(&place.python);
    command.arg(place.scripts.join("raw.py")).arg(&fifo);
    let seconds = seconds_of(&mut command)?;
    writer.join().ok().context("the writer panicked")??;
    Ok(seconds)
}

/// The script's own time for the data: the third word that it prints.
pub fn seconds_of(command: &mut Command) -> Result<f64> {
    let done = command
        .stderr(Stdio::inherit())
        .output()
        .context("starting Python; `make bench` sets it up")?;
    ensure!(done.status.success(), "{command:?}: {}", done.status);
    let text = String::from_utf8(done.stdout)?;
    let seconds = text.split_whitespace().nth(2).context("no figures printed")?;
    Ok(seconds.parse()?)
}
