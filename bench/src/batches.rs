//! Batches of a fixed size, as training loops have them, with more workers than one.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use pipemill_source::{Compression, Files, Pattern, ReadSettings, Stop};
use pipemill_types::{BatchAcross, BatchSize, Tail};

use crate::data::{self, Format};
use crate::host::{BenchDecoder, Way};
use crate::in_turns;
use crate::report::{BenchPaths, Report};

/// How often a run reads the files.
const EPOCHS: u32 = 2;

/// What the lines of a format read.
struct Case {
    name: &'static str,
    format: Format,
    record: usize,
    options: &'static [(&'static str, &'static str)],
    /// Number of records of each batch.
    batch: usize,
    /// The bar of two workers against one.
    bar: f64,
}

const CASES: [Case; 3] = [
    Case {
        name: "csv, dense",
        format: Format::Numbers,
        record: 128,
        options: &[("emit", "dense")],
        batch: 2048,
        bar: 1.6,
    },
    Case {
        name: "tfrecord 1 KiB",
        format: Format::TfRecord,
        record: 1 << 10,
        options: &[],
        batch: 512,
        bar: 1.0,
    },
    // Of the size of pictures: a batch takes 39 MB.
    Case {
        name: "tfrecord 150 KiB",
        format: Format::TfRecord,
        record: 150 << 10,
        options: &[],
        batch: 256,
        bar: 1.0,
    },
];

pub fn measure(paths: &BenchPaths, report: &mut Report) -> Result<()> {
    for case in CASES {
        let path = data::file(paths, case.format, case.record)?;
        let (tail, across) = (Tail::Keep, BatchAcross::Epoch);
        let batch = Some(BatchSize { records: case.batch, tail, across });
        let one = Way { batch, workers: 1, ..Way::default() };
        let two = Way { workers: 2, ..one };
        let name = format!("{}, batches of {}", case.name, case.batch);
        for files in [1, 2] {
            let line = format!("{name}, 2 workers, files: {files}");
            let paths_of_files = vec![path.clone(); files];
            let against = ("1 worker", one);
            compare(paths, report, &line, &case, &paths_of_files, two, against, case.bar)?;
        }
        for (workers, way) in [("1 worker", one), ("2 workers", two)] {
            let line = format!("{name}, {workers}");
            let against = ("without a size", Way { batch: None, ..way });
            compare(paths, report, &line, &case, std::slice::from_ref(&path), way, against, 0.95)?;
        }
    }
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "private, with only two calls")]
fn compare(
    paths: &BenchPaths,
    report: &mut Report,
    name: &str,
    case: &Case,
    files: &[PathBuf],
    way: Way,
    (baseline, other): (&str, Way),
    bar: f64,
) -> Result<()> {
    let options = crate::decode::options_of(case.options);
    let decoder = BenchDecoder::new(case.format.decoder(), &options)?;
    let stop = Stop::new()?;
    let run = |way: Way, count: &mut u64| -> Result<f64> {
        let (compression, epochs) = (Compression::None, EPOCHS);
        let reading = ReadSettings { compression, epochs, ..ReadSettings::default() };
        let source = Files::new(Pattern::Files(files.to_vec()), reading, 0, stop.clone());
        let ran = decoder.run_in_batches(&paths.dir, Box::new(source), way)?;
        *count = ran.totals.records;
        Ok(ran.seconds)
    };
    let mut counts = (0, 0);
    let (with, without) = in_turns(|| run(way, &mut counts.0), || run(other, &mut counts.1))?;
    ensure!(counts.0 == counts.1 && counts.0 > 0, "{name}: {counts:?} records");
    let sizes = files.iter().map(|path| Ok(std::fs::metadata(path)?.len()));
    let bytes = sizes.sum::<std::io::Result<u64>>()? as f64 * f64::from(EPOCHS) / 1e9;
    report.rate(name, bytes / with, "GB/s", baseline, bytes / without, Some(bar));
    Ok(())
}
