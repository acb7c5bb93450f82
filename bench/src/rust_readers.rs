//! Rust's usual readers of text, for `make bench-peers`: `pipemill-bench read TASK`, with a task in
//! JSON.
//!
//! They answer as `bench/python/peers/worker.py` does: once for the small files, then for each line of
//! standard input. An answer is a line of JSON.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::{Deserialize, Serialize};

/// The buffer of a reader, in bytes. Larger ones are not faster.
const BUFFER: usize = 256 << 10;

/// The records that a reader has read from some files.
#[derive(Default, Serialize)]
struct Answer {
    records: u64,
    /// A sum over the records. It is the same for all readers of a case.
    sum: u64,
    seconds: f64,
    cpu: f64,
}

/// Reads a file: adds its records and its sum.
type Read = fn(&str, &mut Answer) -> Result<()>;

/// The part of the task of `bench/python/peers/task.py` that a reader here needs.
#[derive(Deserialize)]
struct Task {
    /// "rust.csv" or "rust.jsonl".
    reader: String,
    seconds: f64,
    files: Vec<String>,
    small: Vec<String>,
}

pub fn serve(arguments: &[String]) -> Result<()> {
    let [task] = arguments else { bail!("pipemill-bench read TASK") };
    let task: Task = serde_json::from_str(task).context("the task")?;
    let read: Read = match task.reader.as_str() {
        "rust.csv" => csv,
        "rust.jsonl" => jsonl,
        reader => bail!("no reader {reader}"),
    };
    let mut small = Answer::default();
    for file in &task.small {
        read(file, &mut small)?;
    }
    // Reads once without a clock, as the readers in Python do.
    read(task.files.first().context("a file")?, &mut Answer::default())?;
    say(&small)?;
    for line in std::io::stdin().lines() {
        line?;
        say(&measure(read, &task.files, task.seconds)?)?;
    }
    Ok(())
}

/// Reads whole files until the time is over.
fn measure(read: Read, files: &[String], seconds: f64) -> Result<Answer> {
    let mut answer = Answer::default();
    let (started, cpu) = (Instant::now(), cpu_seconds()?);
    for file in files.iter().cycle() {
        read(file, &mut answer)?;
        if started.elapsed().as_secs_f64() > seconds {
            break;
        }
    }
    answer.seconds = started.elapsed().as_secs_f64();
    answer.cpu = cpu_seconds()? - cpu;
    Ok(answer)
}

/// Fields as bytes, in a record that is reused: the crate's fastest way with all fields.
fn csv(path: &str, answer: &mut Answer) -> Result<()> {
    let mut builder = csv::ReaderBuilder::new();
    let mut reader = builder.has_headers(false).buffer_capacity(BUFFER).from_path(path)?;
    let mut record = csv::ByteRecord::new();
    while reader.read_byte_record(&mut record)? {
        answer.records += 1;
        answer.sum += record.iter().map(|field| field.len() as u64).sum::<u64>();
    }
    Ok(())
}

/// The fields that the case selects. Text without escapes is borrowed.
#[derive(Deserialize)]
struct Line<'a> {
    id: i64,
    score: f64,
    #[serde(borrow)]
    text: Cow<'a, str>,
}

fn jsonl(path: &str, answer: &mut Answer) -> Result<()> {
    let mut reader = BufReader::with_capacity(BUFFER, File::open(path)?);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        let found: Line = serde_json::from_slice(&line)?;
        answer.records += 1;
        answer.sum += found.text.len() as u64 + found.id as u64 + found.score as u64;
        line.clear();
    }
    Ok(())
}

fn cpu_seconds() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(micros as f64 / 1e6)
}

fn say(answer: &Answer) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(answer)?)?;
    Ok(out.flush()?)
}
