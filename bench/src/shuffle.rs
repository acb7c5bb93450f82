//! A window of shuffled records, against the same batches in the order of the input.

use anyhow::{Result, ensure};
use pipemill_channel::{Shuffle, Window};
use pipemill_source::{Compression, Files, Pattern, ReadSettings, Stop};
use pipemill_types::{BatchAcross, BatchSize, Tail};

use crate::data::{self, Format};
use crate::host::BenchDecoder;
use crate::in_turns;
use crate::report::{BenchPaths, Report};

const BATCH: BatchSize = BatchSize { records: 512, tail: Tail::Keep, across: BatchAcross::Epoch };
const WINDOW: Window = Window::Bytes(256 << 20);

pub fn measure(paths: &BenchPaths, report: &mut Report) -> Result<()> {
    let name = "tfrecord 1 KiB, batches of 512, window of 256 MiB";
    let path = data::file(paths, Format::TfRecord, 1 << 10)?;
    let mill = BenchDecoder::new(Format::TfRecord.decoder(), &[])?;
    let stop = Stop::new()?;
    let run = |shuffle| -> Result<_> {
        let reading = ReadSettings { compression: Compression::None, ..ReadSettings::default() };
        let files = Files::new(Pattern::File(path.clone()), reading, 0, stop.clone());
        let ran = mill.run_in_batches(&paths.dir, Box::new(files), Some(BATCH), shuffle)?;
        Ok((ran.seconds, ran.totals.records))
    };
    let mut counts = (0, 0);
    let (with, without) = in_turns(
        || {
            let (seconds, records) = run(Some(Shuffle { seed: 7, window: WINDOW }))?;
            counts.0 = records;
            Ok(seconds)
        },
        || {
            let (seconds, records) = run(None)?;
            counts.1 = records;
            Ok(seconds)
        },
    )?;
    ensure!(counts.0 == counts.1 && counts.0 > 0, "{name}: {counts:?} records");
    let bytes = std::fs::metadata(&path)?.len() as f64 / 1e9;
    report.rate(name, bytes / with, "GB/s", "without a window", bytes / without, None);
    Ok(())
}
