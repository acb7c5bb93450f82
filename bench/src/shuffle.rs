//! Batches of a fixed size compared with batches that leave as early as possible; states that a
//! consumer makes of them; and a window of shuffled records compared with the same batches in the
//! order of the input.
//!
//! The rate with a window is that of whole epochs: each fills the window first, which delivers
//! nothing, and empties it at the end. So an epoch is much larger than the window, except for the
//! line without a bar. There are two of them, because the memory of the window is new only in the
//! first one.

use anyhow::{Result, ensure};
use pipemill_channel::{Shuffle, Window};
use pipemill_source::{Compression, Files, Pattern, ReadSettings, Stop};
use pipemill_types::{BatchAcross, BatchSize, Tail};

use crate::data::{self, Format};
use crate::host::{BenchDecoder, Way};
use crate::in_turns;
use crate::report::{BenchPaths, Report};

const BATCH: BatchSize = BatchSize { records: 512, tail: Tail::Keep, across: BatchAcross::Epoch };
const RECORD: usize = 1 << 10;
/// Size of the window, and of an epoch that is much larger, in bytes.
const WINDOW: usize = 256 << 20;
const EPOCH: usize = 2 << 30;
const EPOCHS: u32 = 2;

pub fn measure(paths: &BenchPaths, report: &mut Report) -> Result<()> {
    let plain = Way::default();
    let fixed = Way { batch: Some(BATCH), ..plain };
    let with_states = Way { keeps_states: true, ..fixed };
    let shuffle = Shuffle { seed: 7, window: Window::Bytes(WINDOW as u64) };
    let with_window = Way { shuffle: Some(shuffle), ..fixed };
    let name = "tfrecord 1 KiB, batches of 512";
    compare(paths, report, name, data::SIZE, fixed, ("without a size", plain), Some(0.95))?;
    let of_states = format!("{name}, a state after each");
    let without = ("without states", fixed);
    compare(paths, report, &of_states, data::SIZE, with_states, without, Some(0.98))?;
    for (file, bar) in [(WINDOW, None), (EPOCH, Some(0.7))] {
        let (file_mib, window_mib) = (file >> 20, WINDOW >> 20);
        let name = format!("{name}, window of {window_mib} of {file_mib} MiB");
        compare(paths, report, &name, file, with_window, ("without a window", fixed), bar)?;
    }
    Ok(())
}

/// Measures one way compared with another one, on a file of this size.
fn compare(
    paths: &BenchPaths,
    report: &mut Report,
    name: &str,
    size: usize,
    one: Way,
    (baseline, other): (&str, Way),
    bar: Option<f64>,
) -> Result<()> {
    let path = data::file_of_size(paths, Format::TfRecord, RECORD, size)?;
    let decoder = BenchDecoder::new(Format::TfRecord.decoder(), &[])?;
    let stop = Stop::new()?;
    let run = |way: Way, count: &mut u64| -> Result<f64> {
        let reading = ReadSettings {
            compression: Compression::None,
            epochs: EPOCHS,
            ..ReadSettings::default()
        };
        let files = Files::new(Pattern::File(path.clone()), reading, 0, stop.clone());
        let ran = decoder.run_in_batches(&paths.dir, Box::new(files), way)?;
        *count = ran.totals.records;
        Ok(ran.seconds)
    };
    let mut counts = (0, 0);
    let (with, without) = in_turns(|| run(one, &mut counts.0), || run(other, &mut counts.1))?;
    ensure!(counts.0 == counts.1 && counts.0 > 0, "{name}: {counts:?} records");
    let bytes = std::fs::metadata(&path)?.len() as f64 * f64::from(EPOCHS) / 1e9;
    report.rate(name, bytes / with, "GB/s", baseline, bytes / without, bar);
    Ok(())
}
