//! The axes: the growing quantity of each, and the inputs of its points.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::data::{self, Format};
use crate::report::BenchPaths;

pub const NAMES: [&str; 5] = ["workers", "channels", "records", "objects", "plugins"];

/// Approximate number of bytes of a long run: a host reads its input repeatedly.
const LONG: u64 = 2 << 30;
/// The same for axes on which the costs of an object matter more.
const LONG_OF_OBJECTS: u64 = 384 << 20;
/// The same of a quick run.
const SHORT: u64 = 64 << 20;
/// The file that channels share, in bytes.
const FILE: usize = 64 << 20;
const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

pub struct Axis {
    pub name: &'static str,
    pub points: Vec<Point>,
}

/// A host's configuration, and its input.
pub struct Point {
    pub at: u64,
    pub series: String,
    /// The names of the channels.
    pub channels: Vec<String>,
    /// For each channel: its source without epochs, and its other keys.
    tables: Vec<(String, String)>,
    /// The bytes of an epoch of all channels.
    pub bytes: u64,
    /// The epochs of a long run. A short one has one.
    pub epochs: u32,
}

impl Point {
    fn new(at: u64, series: impl Into<String>, tables: Vec<(String, String)>, bytes: u64) -> Self {
        let channels = (0..tables.len()).map(|number| format!("bench{number}")).collect();
        Self { at, series: series.into(), channels, tables, bytes, epochs: 2 }
    }

    /// Chooses the epochs so that a long run has about this number of bytes.
    fn with_bytes(mut self, long: u64) -> Self {
        // With few epochs, the start of many channels, which varies between runs, would matter too
        // much.
        self.epochs = (1 + long / self.bytes).clamp(10, 1000) as u32;
        self
    }

    /// The channels' tables of a configuration.
    pub fn config(&self, epochs: u32) -> String {
        let mut text = String::new();
        for (name, (source, keys)) in self.channels.iter().zip(&self.tables) {
            let _ = write!(
                text,
                "[[channel]]\nname = \"{name}\"\nsource = {{ {source}, epochs = {epochs} }}\n{keys}\n"
            );
        }
        text
    }
}

/// Makes the inputs of an axis.
pub fn prepare(name: &'static str, paths: &BenchPaths, quick: bool) -> Result<Axis> {
    let long = match name {
        _ if quick => SHORT,
        "objects" => LONG_OF_OBJECTS,
        _ => LONG,
    };
    let points = match name {
        "workers" => workers(paths)?,
        "channels" => channels(paths)?,
        "records" => records(paths, quick)?,
        "objects" => objects(paths)?,
        "plugins" => plugins(paths)?,
        _ => bail!("no axis {name}"),
    };
    let points = points.into_iter().map(|point| point.with_bytes(long)).collect();
    Ok(Axis { name, points })
}

/// 1, 2, 4 and so on, up to the cores of this machine, over objects and over sections of one object.
fn workers(paths: &BenchPaths) -> Result<Vec<Point>> {
    let cores = std::thread::available_parallelism()?.get();
    let counts = || (0..).map(|power| 1usize << power).take_while(|count| *count <= cores);
    let (csv, tfrecord) = (folder(paths, Format::Csv)?, folder(paths, Format::TfRecord)?);
    let one = data::file(paths, Format::Csv, 100)?;
    let numbers = data::file(paths, Format::Numbers, 128)?;
    let dense = "decoder = \"csv\"\noptions = { emit = \"dense\" }\nbatch = 2048";
    let batches = "decoder = \"tfrecord\"\nbatch = 512";
    let cases = [
        ("csv, 8 objects", files(&csv), size_of(&csv)?, "decoder = \"csv\""),
        ("csv, 1 object", file(&one), fs::metadata(&one)?.len(), "decoder = \"csv\""),
        ("tfrecord, 8 objects", files(&tfrecord), size_of(&tfrecord)?, "decoder = \"tfrecord\""),
        ("tfrecord, batches of 512", files(&tfrecord), size_of(&tfrecord)?, batches),
        ("csv, dense batches of 2048", file(&numbers), fs::metadata(&numbers)?.len(), dense),
    ];
    let mut points = Vec::new();
    for (series, source, bytes, decoder) in cases {
        for count in counts() {
            let keys = format!("{decoder}\nworkers = {count}");
            points.push(Point::new(count as u64, series, vec![(source.clone(), keys)], bytes));
        }
    }
    Ok(points)
}

/// All channels read the same file.
fn channels(paths: &BenchPaths) -> Result<Vec<Point>> {
    let path = data::file_of_size(paths, Format::TfRecord, KIB, FILE)?;
    let bytes = fs::metadata(&path)?.len();
    let channel = (file(&path), "decoder = \"tfrecord\"".to_owned());
    let point = |count: usize| {
        let tables = vec![channel.clone(); count];
        Point::new(count as u64, "tfrecord", tables, bytes * count as u64)
    };
    Ok([1, 2, 5, 10, 20].map(point).into())
}

/// Up to the largest record that a configuration allows, in as much memory as that needs.
fn records(paths: &BenchPaths, quick: bool) -> Result<Vec<Point>> {
    let largest = if quick { 4 * MIB } else { 1 << 30 };
    let sizes = [KIB, 16 * KIB, 256 * KIB, 4 * MIB, 64 * MIB, 1 << 30];
    let mut points = Vec::new();
    for record in sizes.into_iter().filter(|size| *size <= largest) {
        let path = data::file_of_size(paths, Format::TfRecord, record, 256 * MIB)?;
        let bytes = fs::metadata(&path)?.len();
        let (record_mib, memory_mib) = (record.div_ceil(MIB).max(64), 2 * record / MIB + 17);
        let keys = format!(
            "decoder = \"tfrecord\"\nmax_record = \"{record_mib}MiB\"\n\
             [channel.limits]\nmemory = \"{}MiB\"",
            memory_mib.max(512)
        );
        points.push(Point::new(record as u64, "tfrecord", vec![(file(&path), keys)], bytes));
    }
    Ok(points)
}

/// The same bytes as objects of a folder, each of one record or more.
fn objects(paths: &BenchPaths) -> Result<Vec<Point>> {
    let path = data::file_of_size(paths, Format::TfRecord, KIB, FILE)?;
    let input = data::bytes(&path)?;
    let mut points = Vec::new();
    for count in [1, 10, 100, 1000, 10_000] {
        let folder = paths.dir.join(format!("scaling/objects-{count}"));
        let record = KIB + 16;
        write_parts(&folder, &input, (input.len() / record).div_ceil(count) * record)?;
        for workers in [1, 2] {
            let keys = format!("decoder = \"tfrecord\"\nworkers = {workers}");
            let series = if workers == 1 { "1 worker" } else { "2 workers" };
            let bytes = input.len() as u64;
            points.push(Point::new(count as u64, series, vec![(files(&folder), keys)], bytes));
        }
    }
    Ok(points)
}

/// As many channels as plugins, each with its own file. For comparison, as many channels of the
/// built-in decoder.
fn plugins(paths: &BenchPaths) -> Result<Vec<Point>> {
    let path = data::file_of_size(paths, Format::TfRecord, KIB, FILE)?;
    let bytes = fs::metadata(&path)?.len();
    let mut points = Vec::new();
    for count in [1, 2, 5, 10, 25, 50] {
        let own = (0..count)
            .map(|number| Ok((file(&path), format!("decoder = {:?}", plugin(paths, number)?))))
            .collect::<Result<Vec<_>>>()?;
        let same = vec![(file(&path), "decoder = \"tfrecord\"".to_owned()); count];
        for (series, tables) in [("a plugin each", own), ("the built-in decoder", same)] {
            points.push(Point::new(count as u64, series, tables, bytes * count as u64));
        }
    }
    Ok(points)
}

/// The built-in decoder of TFRecord as a plugin with a unique digest.
fn plugin(paths: &BenchPaths, number: usize) -> Result<PathBuf> {
    let name = Format::TfRecord.decoder();
    let builtin = pipemill_builtin::BUILTINS.iter().find(|builtin| builtin.name == name);
    let mut wasm = builtin.context("the built-in decoder")?.module().into_owned();
    // A custom section without a meaning: its name has one byte, and its content is the number.
    wasm.extend([0, 3, 1, b'n', number as u8]);
    let path = paths.dir.join(format!("scaling/plugin-{number}.wasm"));
    fs::write(&path, wasm)?;
    Ok(path)
}

/// A folder of eight objects.
fn folder(paths: &BenchPaths, format: Format) -> Result<PathBuf> {
    let record = if format == Format::Csv { 100 } else { KIB };
    let input = data::bytes(&data::file(paths, format, record)?)?;
    let folder = paths.dir.join(format!("scaling/{}-8", format.decoder()));
    match format {
        Format::Csv => write_lines(&folder, &input, 8)?,
        _ => {
            let record = record + 16;
            write_parts(&folder, &input, (input.len() / record).div_ceil(8) * record)?;
        }
    }
    Ok(folder)
}

fn write_lines(folder: &Path, input: &[u8], count: usize) -> Result<()> {
    let mut parts = Vec::new();
    let mut rest = input;
    for left in (1..=count).rev() {
        let half = rest.len() / left;
        let line = rest[half..].iter().position(|byte| *byte == b'\n');
        let (part, after) = rest.split_at(line.map_or(rest.len(), |at| half + at + 1));
        parts.push(part);
        rest = after;
    }
    write_all(folder, &parts)
}

fn write_parts(folder: &Path, input: &[u8], part: usize) -> Result<()> {
    write_all(folder, &input.chunks(part).collect::<Vec<_>>())
}

/// Numbered files, which are made unless the folder exists. All are read once, so that they are in
/// the page cache.
fn write_all(folder: &Path, parts: &[&[u8]]) -> Result<()> {
    if !folder.exists() {
        let unfinished = folder.with_extension("part");
        let _ = fs::remove_dir_all(&unfinished);
        fs::create_dir_all(&unfinished)?;
        for (number, part) in parts.iter().enumerate().filter(|(_, part)| !part.is_empty()) {
            fs::write(unfinished.join(format!("{number:05}")), part)?;
        }
        fs::rename(&unfinished, folder)?;
    }
    for entry in fs::read_dir(folder)? {
        fs::read(entry?.path())?;
    }
    Ok(())
}

fn size_of(folder: &Path) -> Result<u64> {
    let sizes = fs::read_dir(folder)?.map(|entry| Ok(entry?.metadata()?.len()));
    sizes.sum::<std::io::Result<u64>>().context("the size of a folder")
}

fn file(path: &Path) -> String {
    format!("file = {path:?}")
}

fn files(folder: &Path) -> String {
    format!("folder = {folder:?}")
}
