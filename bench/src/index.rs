//! Reading with an index: the time to the first batch of a million objects and of a run that goes
//! on inside of a compressed file; orders of blocks compared with the order of the data, from files
//! and from S3 with its latency; objects in S3 from the cache compared with the same as files;
//! records by their numbers compared with the same in their order; and making an index compared
//! with counting the records.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use pipemill_index::{Index, IndexedObject, Objects, Storage};
use pipemill_ring::reader::{Event, Reader};
use pipemill_s3_test::proxy::{Plan, Proxy};
use pipemill_s3_test::servers::{S3Server, S3s};
use pipemill_source::Location;
use pipemill_source::s3::{CONNECTION_RATE, Selection, Settings};

use crate::data::{self, Format};
use crate::latency::{KillOnDrop, connect};
use crate::python::words;
use crate::report::{BenchPaths, Report};
use crate::s3::{BUCKET, CONNECTIONS, LATENCY, keys, objects};
use crate::{ROUNDS, in_turns, median};

/// Folders of the list of a million objects, and files in each of them.
const FOLDERS: usize = 1000;
const FILES: usize = 1000;
/// What is added to a source.
const BLOCKS: &str = "\nshuffle = { seed = 7, blocks = \"8MiB\" }";
const SHARDS: &str = "\nshuffle = { seed = 7, blocks = \"8MiB\", shards = 8 }";
/// Epochs of objects in the cache: so the time to start matters little.
const EPOCHS: u32 = 4;
/// Records of a batch.
const BATCH: u64 = 256;

pub fn measure(paths: &BenchPaths, report: &mut Report) -> Result<()> {
    first_batches(paths, report)?;
    resume(paths, report)?;
    from_files(paths, report)?;
    from_s3(paths, report)?;
    from_cache(paths, report)?;
    by_number(paths, report)?;
    making(paths, report)
}

/// A host that reads this source as the channel `bench`, in batches.
fn host(paths: &BenchPaths, dir: &Path, source: &str, more: &str) -> Result<(Command, PathBuf)> {
    let (config, socket) = (dir.join("pipemill.toml"), dir.join("s/bench.sock"));
    let text = format!(
        "socket = {socket:?}\n[[channel]]\nname = \"bench\"\nsource = {{ {source} }}\n\
         batch = {BATCH}{more}\n"
    );
    std::fs::write(&config, text)?;
    let mut command = Command::new(&paths.pipemill);
    command.arg("run").arg("--config").arg(config).env("PIPEMILL_LOG", "error");
    Ok((command, socket))
}

/// Makes the index of a source with the program.
fn make(paths: &BenchPaths, source: &str, out: &Path, more: &[&str]) -> Result<()> {
    let mut command = Command::new(&paths.pipemill);
    command.arg("index").arg(source).arg("--out").arg(out).args(more);
    let output = command.output()?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Seconds from the start of the host's process until a consumer has the first batch, and the
/// batch's first record.
fn first_batch(mut command: Command, socket: &Path) -> Result<(f64, u64)> {
    let began = Instant::now();
    let _host = KillOnDrop(command.spawn().context("starting pipemill")?);
    let mut reader = connect(socket)?;
    let first = next_record(&mut reader)?;
    Ok((began.elapsed().as_secs_f64(), first))
}

/// Number of the first record of the next batch.
fn next_record(reader: &mut Reader) -> Result<u64> {
    match reader.next()? {
        Event::Batch(batch) => Ok(batch.first_record()),
        _ => bail!("the data ends early"),
    }
}

/// The time to the first batch of an index of a million objects, in each order.
fn first_batches(paths: &BenchPaths, report: &mut Report) -> Result<()> {
    let index = million(paths)?;
    let source = format!("index = {index:?}");
    for (order, more) in [("in order", ""), ("blocks", BLOCKS), ("8 shards", SHARDS)] {
        let dir = tempfile::tempdir_in(&paths.dir)?;
        let time = || {
            let (command, socket) = host(paths, dir.path(), &source, more)?;
            Ok(first_batch(command, &socket)?.0)
        };
        let times: Result<Vec<_>> = (0..ROUNDS).map(|_| time()).collect();
        let name = format!("exec to the first batch, 1,000,000 objects, {order}");
        report.time(name, median(times?) * 1e3, "ms", 300.0);
    }
    Ok(())
}

/// The index of a million objects: the files of a folder, below a thousand names of the folder.
fn million(paths: &BenchPaths) -> Result<PathBuf> {
    let (folder, path) = (paths.dir.join("million"), paths.dir.join("million.index"));
    if path.exists() {
        return Ok(path);
    }
    std::fs::create_dir_all(folder.join("0000"))?;
    let records = data::bytes(&data::file(paths, Format::TfRecord, 1 << 10)?)?;
    let bytes = &records[..10 * ((1 << 10) + 16)];
    let names: Vec<_> = (0..FILES).map(|file| format!("{file:04}.tfrecord")).collect();
    for name in &names {
        std::fs::write(folder.join("0000").join(name), bytes)?;
    }
    for number in 1..FOLDERS {
        let link = folder.join(format!("{number:04}"));
        if std::fs::symlink_metadata(&link).is_err() {
            std::os::unix::fs::symlink("0000", link)?;
        }
    }
    let one = paths.dir.join("one.index");
    make(paths, &folder.join("0000").to_string_lossy(), &one, &["-d", "tfrecord"])?;
    let known = Index::read(&one)?;
    let mut all = Objects::default();
    for number in 0..FOLDERS {
        for object in known.objects.iter() {
            all.push(IndexedObject { name: &format!("{number:04}/{}", object.name), ..object });
        }
    }
    let mut header = known.header;
    (header.objects, header.records) = (all.count() as u64, all.records());
    header.root = folder.to_string_lossy().into_owned();
    let index = Index { header, objects: all };
    let mut storage = Storage::new(Settings::new(Selection::Prefixes(Vec::new())));
    storage.write(&index, &Location::File(path.clone()), None)?;
    Ok(path)
}

/// The time of a run that goes on at 90 % of a file of gzip, whose index has its seek points.
fn resume(paths: &BenchPaths, report: &mut Report) -> Result<()> {
    let (file, index) = (paths.dir.join("resume.csv.gz"), paths.dir.join("resume.index"));
    if !index.exists() {
        let plain = data::file(paths, Format::Csv, 0)?;
        let out = std::fs::File::create(&file)?;
        let gzip = Command::new("gzip").arg("-c").arg(&plain).stdout(Stdio::from(out)).status()?;
        ensure!(gzip.success(), "gzip: {gzip}");
        let options = ["-d", "csv", "-o", "header=false"];
        make(paths, &file.to_string_lossy(), &index, &options)?;
    }
    let dir = tempfile::tempdir_in(&paths.dir)?;
    let source = format!("index = {index:?}");
    let records = Index::read(&index)?.header.records;
    let state = dir.path().join("state.json");
    {
        let (mut command, socket) = host(paths, dir.path(), &source, "")?;
        let _host = KillOnDrop(command.spawn().context("starting pipemill")?);
        let mut reader = connect(&socket)?;
        while next_record(&mut reader)? < records / 10 * 9 {}
        std::fs::write(&state, serde_json::to_string(&reader.state()?)?)?;
    }
    let time = || {
        let (mut command, socket) = host(paths, dir.path(), &source, "")?;
        command.arg("--resume").arg(&state);
        let (seconds, first) = first_batch(command, &socket)?;
        ensure!(first >= records / 10 * 9, "it goes on at record {first}");
        Ok(seconds)
    };
    let times: Result<Vec<_>> = (0..ROUNDS).map(|_| time()).collect();
    let name = "exec of `run --resume` to the first record, gzip";
    report.time(name, median(times?) * 1e3, "ms", 100.0);
    Ok(())
}

/// Seconds from the start of a host until a consumer has all records of the source.
fn all_records(paths: &BenchPaths, source: &str, more: &str, records: &mut u64) -> Result<f64> {
    let dir = tempfile::tempdir_in(&paths.dir)?;
    let (mut command, socket) = host(paths, dir.path(), source, more)?;
    let began = Instant::now();
    let mut host = KillOnDrop(command.spawn().context("starting pipemill")?);
    let mut reader = connect(&socket)?;
    *records = 0;
    loop {
        match reader.next()? {
            Event::Batch(batch) => *records += batch.records() as u64,
            Event::StreamEnd => break,
            _ => {}
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    drop(reader);
    host.0.kill()?;
    Ok(seconds)
}

/// The rate with a shuffle compared with that without.
fn compare(
    paths: &BenchPaths,
    report: &mut Report,
    name: &str,
    source: &str,
    bytes: f64,
    bar: f64,
) -> Result<()> {
    let mut counts = (0, 0);
    let (with, without) = in_turns(
        || all_records(paths, source, BLOCKS, &mut counts.0),
        || all_records(paths, source, "", &mut counts.1),
    )?;
    ensure!(counts.0 == counts.1 && counts.0 > 0, "{name}: {counts:?} records");
    report.rate(name, bytes / with, "GB/s", "in their order", bytes / without, Some(bar));
    Ok(())
}

fn from_files(paths: &BenchPaths, report: &mut Report) -> Result<()> {
    let cases = [
        ("tfrecord 1 KiB", Format::TfRecord, 1 << 10, &["-d", "tfrecord"][..], 16_u32),
        ("tfrecord 100 KiB", Format::TfRecord, 100 << 10, &["-d", "tfrecord"], 16),
        ("csv", Format::Csv, 0, &["-d", "csv", "-o", "header=false"], 4),
    ];
    for (name, format, record, options, epochs) in cases {
        let file = data::file(paths, format, record)?;
        let index = paths.dir.join("files.index");
        make(paths, &file.to_string_lossy(), &index, options)?;
        let source = format!("index = {index:?}, epochs = {epochs}");
        let bytes = file.metadata()?.len() as f64 * f64::from(epochs) / 1e9;
        compare(paths, report, &format!("{name}, blocks of 8 MiB, files"), &source, bytes, 0.8)?;
    }
    Ok(())
}

fn from_s3(paths: &BenchPaths, report: &mut Report) -> Result<()> {
    let folder = objects(paths)?;
    let server = S3s::start_open(&folder);
    let plan = Plan { latency: LATENCY, throttle: Some(CONNECTION_RATE), ..Plan::default() };
    let proxy = Proxy::start(&server.endpoint(), plan)?;
    for prefix in ["one/", "many/"] {
        let index = paths.dir.join("s3.index");
        let address = format!("s3://{BUCKET}/{prefix}");
        let (direct, through) = (server.endpoint(), proxy.endpoint());
        let options =
            ["-d", "tfrecord", "--endpoint", &direct, "--region", "us-east-1", "--anonymous"];
        make(paths, &address, &index, &options)?;
        let source = format!(
            "index = {index:?}, endpoint = \"{through}\", region = \"us-east-1\", \
             anonymous = true, concurrency = {CONNECTIONS}"
        );
        let bytes = Index::read(&index)?.header.bytes as f64 / 1e9;
        let name = format!("S3, 30 ms, {prefix}, blocks of 8 MiB");
        compare(paths, report, &name, &source, bytes, 0.9)?;
    }
    Ok(())
}

/// Objects in S3 that are in the cache, compared with the same objects as local files.
fn from_cache(paths: &BenchPaths, report: &mut Report) -> Result<()> {
    let folder = objects(paths)?;
    let server = S3s::start_open(&folder);
    let cache = tempfile::tempdir_in(&paths.dir)?;
    let decoder = "\ndecoder = \"tfrecord\"";
    for prefix in ["one/", "many/"] {
        let local = folder.join(BUCKET).join(prefix);
        let of_epoch: u64 = keys(paths, prefix)?.iter().map(|(_, bytes)| bytes).sum();
        let bytes = of_epoch as f64 * f64::from(EPOCHS) / 1e9;
        let remote = format!(
            "s3 = \"s3://{BUCKET}/{prefix}\", endpoint = \"{}\", region = \"us-east-1\", \
             anonymous = true, cache = {{ path = {:?}, size = \"8GiB\" }}, epochs = {EPOCHS}",
            server.endpoint(),
            cache.path()
        );
        let local = format!("folder = {local:?}, epochs = {EPOCHS}");
        let mut counts = (0, 0);
        // The first round, which is not counted, fills the cache.
        let (cached, files) = in_turns(
            || all_records(paths, &remote, decoder, &mut counts.0),
            || all_records(paths, &local, decoder, &mut counts.1),
        )?;
        ensure!(counts.0 == counts.1 && counts.0 > 0, "{prefix}: {counts:?} records");
        let name = format!("S3, {prefix}, from the cache");
        report.rate(name, bytes / cached, "GB/s", "as local files", bytes / files, Some(0.9));
    }
    Ok(())
}

/// Batches of records with random numbers compared with the same records in their order.
fn by_number(paths: &BenchPaths, report: &mut Report) -> Result<()> {
    let file = data::file(paths, Format::TfRecord, 100 << 10)?;
    let index = paths.dir.join("numbers.index");
    let options = ["-d", "tfrecord", "--distance", "64KiB"];
    make(paths, &file.to_string_lossy(), &index, &options)?;
    let rate = |order: &str| -> Result<f64> {
        let mut command = Command::new(&paths.python);
        command.arg(paths.scripts.join("by_number.py")).arg(&index).arg(order);
        command.env("PIPEMILL", &paths.pipemill).env("PYTHONPATH", &paths.package);
        Ok(words(&mut command)?.get(1).context("a figure")?.parse()?)
    };
    let (random, sequential) = in_turns(|| rate("random"), || rate("sequential"))?;
    let name = "256 records of 100 KiB by random numbers";
    report.rate(name, 1.0 / random, "1/s", "in their order", 1.0 / sequential, Some(0.5));
    Ok(())
}

/// Making an index compared with counting the records.
fn making(paths: &BenchPaths, report: &mut Report) -> Result<()> {
    let cases = [
        ("tfrecord 1 KiB", Format::TfRecord, 1 << 10, &["-d", "tfrecord"][..]),
        ("csv", Format::Csv, 0, &["-d", "csv", "-o", "header=false"]),
    ];
    for (name, format, record, options) in cases {
        let file = data::file(paths, format, record)?;
        let index = paths.dir.join("made.index");
        let run = |command: &[&str], last: &[&str]| -> Result<f64> {
            let mut run = Command::new(&paths.pipemill);
            run.args(command).args(options).arg(&file).args(last);
            let began = Instant::now();
            let status = run.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
            ensure!(status.success(), "{run:?}: {status}");
            Ok(began.elapsed().as_secs_f64())
        };
        let out = index.to_string_lossy();
        let make = |workers: &str| run(&["index", "--workers", workers], &["--out", &out]);
        let count = || run(&["cat", "--output", "count"], &[]);
        let (made, counted) = in_turns(|| make("1"), count)?;
        let bytes = file.metadata()?.len() as f64 / 1e9;
        let one = format!("`pipemill index`, {name}, 1 worker");
        let counted = bytes / counted;
        report.rate(one, bytes / made, "GB/s", "`cat --output count`", counted, Some(0.9));
        let (two, one) = in_turns(|| make("2"), || make("1"))?;
        let name = format!("`pipemill index`, {name}, 2 workers");
        report.rate(name, bytes / two, "GB/s", "1 worker", bytes / one, None);
    }
    Ok(())
}
