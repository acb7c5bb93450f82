//! Batches of a fixed size against those that leave as early as they can, and a window of shuffled
//! records against the same batches in the order of the input.

use anyhow::{Result, ensure};
use pipemill_channel::{Shuffle, Window};
use pipemill_source::{Compression, Files, Pattern, ReadSettings, Stop};
use pipemill_types::{BatchAcross, BatchSize, Tail};

use crate::data::{self, Format};
use crate::host::BenchDecoder;
use crate::in_turns;
use crate::report::{BenchPaths, Report};

const BATCH: BatchSize = BatchSize { records: 512, tail: Tail::Keep, across: BatchAcross::Epoch };
const RECORD: usize = 1 << 10;

/// How batches are made.
type Way = (Option<BatchSize>, Option<Shuffle>);

pub fn measure(paths: &BenchPaths, report: &mut Report) -> Result<()> {
    let plain = (None, None);
    let fixed = (Some(BATCH), None);
    let name = "tfrecord 1 KiB, batches of 512";
    compare(paths, report, name, data::SIZE, fixed, ("without a size", plain), 0.95)?;
    // A window as large as the file, which is hardly ever full; and one that is full most of the time.
    for (file, window) in [(256 << 20, 256 << 20), (512 << 20, 64 << 20)] {
        let shuffle = Shuffle { seed: 7, window: Window::Bytes(window) };
        let (file_mib, window_mib) = (file >> 20, window >> 20);
        let name = format!("{name}, window of {window_mib} of {file_mib} MiB");
        let without = ("without a window", fixed);
        compare(paths, report, &name, file, (Some(BATCH), Some(shuffle)), without, 0.7)?;
    }
    Ok(())
}

/// Measures one way against another one, on a file of this size.
fn compare(
    paths: &BenchPaths,
    report: &mut Report,
    name: &str,
    size: usize,
    one: Way,
    (baseline, other): (&str, Way),
    bar: f64,
) -> Result<()> {
    let path = data::file_of_size(paths, Format::TfRecord, RECORD, size)?;
    let mill = BenchDecoder::new(Format::TfRecord.decoder(), &[])?;
    let stop = Stop::new()?;
    let run = |(batch, shuffle): Way, count: &mut u64| -> Result<f64> {
        let reading = ReadSettings { compression: Compression::None, ..ReadSettings::default() };
        let files = Files::new(Pattern::File(path.clone()), reading, 0, stop.clone());
        let ran = mill.run_in_batches(&paths.dir, Box::new(files), batch, shuffle)?;
        *count = ran.totals.records;
        Ok(ran.seconds)
    };
    let mut counts = (0, 0);
    let (with, without) = in_turns(|| run(one, &mut counts.0), || run(other, &mut counts.1))?;
    ensure!(counts.0 == counts.1 && counts.0 > 0, "{name}: {counts:?} records");
    let bytes = std::fs::metadata(&path)?.len() as f64 / 1e9;
    report.rate(name, bytes / with, "GB/s", baseline, bytes / without, Some(bar));
    Ok(())
}
