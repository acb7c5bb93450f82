//! What a profiler looks at to say where the time of a record goes: `pipemill-bench stages CASE SECONDS`
//! decodes a file of that case for so long, in its main thread, and prints the number of records.

use std::time::Instant;

use anyhow::{Context, Result, bail};
use pipemill_source::{Compression, Files, Pattern, ReadSettings, Stop};

use crate::data::{self, Format};
use crate::host::BenchDecoder;
use crate::report::BenchPaths;

/// Name, format, bytes of a record, options of the decoder.
type Case = (&'static str, Format, usize, &'static [(&'static str, &'static str)]);

const CASES: [Case; 6] = [
    ("TFRecord, 100 B", Format::TfRecord, 100, &[]),
    ("TFRecord, 1 KiB", Format::TfRecord, 1 << 10, &[]),
    ("TFRecord, 100 KiB", Format::TfRecord, 100 << 10, &[]),
    ("RecordIO, 1 KiB", Format::RecordIo, 1 << 10, &[]),
    ("csv, rows of 100 B", Format::Csv, 100, &[("emit", "row")]),
    ("csv, fields of rows of 100 B", Format::Csv, 100, &[]),
];

/// Without arguments, prints the names of the cases.
pub fn run(paths: &BenchPaths, arguments: &[String]) -> Result<()> {
    let [name, seconds] = arguments else {
        CASES.iter().for_each(|(name, ..)| println!("{name}"));
        return Ok(());
    };
    let Some((_, format, record, options)) = CASES.iter().find(|(known, ..)| known == name) else {
        bail!("there is no case {name:?}");
    };
    let seconds: f64 = seconds.parse().context("the number of seconds")?;
    let path = data::file(paths, *format, *record)?;
    let options: Vec<_> = options.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let mill = BenchDecoder::new(format.decoder(), &options)?;
    let (stop, started, mut records) = (Stop::new()?, Instant::now(), 0);
    while started.elapsed().as_secs_f64() < seconds {
        let pattern = Pattern::File(path.clone());
        let compression = Compression::None;
        let reading = ReadSettings { compression, epochs: 20, ..ReadSettings::default() };
        let files = Files::new(pattern, reading, 0, stop.clone());
        records += mill.run(&paths.dir, Box::new(files))?.totals.records;
    }
    println!("{records}");
    Ok(())
}
