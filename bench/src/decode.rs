//! Decoding from files: Wasm through the host into the ring, against the same decoder natively.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, ensure};
use pipemill_ring::host::Ring;
use pipemill_source::Stop;
use pipemill_source::{Compression, Files, Pattern, ReadSettings};

use crate::data::{self, Format};
use crate::host::{BenchDecoder, into_ring};
use crate::report::{BenchPaths, Report};
use crate::{in_turns, native};

/// A case: its name, format, record size, decoder options and bar.
pub type Case = (&'static str, Format, usize, &'static [(&'static str, &'static str)], f64);

const TEXTS: &[(&str, &str)] = &[("fields", "/title:utf8,/text:utf8,/lang:utf8")];

/// Number of times that a run reads the file. In the first epoch, the kernel still allocates the
/// memory of the ring.
const EPOCHS: u32 = 6;

pub const CASES: [Case; 9] = [
    ("tfrecord 100 B, full CRC", Format::TfRecord, 100, &[], 0.92),
    ("tfrecord 1 KiB, full CRC", Format::TfRecord, 1 << 10, &[], 0.93),
    ("tfrecord 100 KiB, full CRC", Format::TfRecord, 100 << 10, &[], 0.93),
    ("recordio 100 B", Format::RecordIo, 100, &[], 0.95),
    ("recordio 1 KiB", Format::RecordIo, 1 << 10, &[], 0.95),
    ("recordio 100 KiB", Format::RecordIo, 100 << 10, &[], 0.95),
    ("csv rows of 100 B, quoted", Format::Csv, 100, &[("emit", "row")], 0.90),
    ("csv fields of 100 B rows, quoted", Format::Csv, 100, &[], 0.88),
    // The native decoder has no vectors: it finds structure byte by byte.
    ("jsonl, 3 of 6 keys of 400 B", Format::JsonLines, 256, TEXTS, 6.0),
];

pub fn measure(paths: &BenchPaths, report: &mut Report) -> Result<()> {
    for (name, format, record, options, bar) in CASES {
        let path = data::file(paths, format, record)?;
        let options = options_of(options);
        let decoder = BenchDecoder::new(format.decoder(), &options)?;
        let stop = Stop::new()?;
        let mut counts = (0, 0);
        let (wasm, native) = in_turns(
            || {
                let ran = decoder.run(&paths.dir, Box::new(source(&path, EPOCHS, &stop)))?;
                counts.0 = ran.totals.records;
                Ok(ran.seconds)
            },
            || {
                let (seconds, records) =
                    into_ring(&paths.dir, |ring| run_native(format, ring, &path, &options))?;
                counts.1 = records;
                Ok(seconds)
            },
        )?;
        ensure!(counts.0 == counts.1 && counts.0 > 0, "{name}: {counts:?} records");
        let bytes = f64::from(EPOCHS) * std::fs::metadata(&path)?.len() as f64 / 1e9;
        report.rate(name, bytes / wasm, "GB/s", "the same core, native", bytes / native, Some(bar));
    }
    Ok(())
}

/// The options of a case, in the form for decoders.
pub fn options_of(options: &[(&str, &str)]) -> Vec<(String, String)> {
    options.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

/// The file, `epochs` times.
pub fn source(path: &Path, epochs: u32, stop: &Stop) -> Files {
    let compression = Compression::None;
    let reading = ReadSettings { compression, epochs, ..ReadSettings::default() };
    Files::new(Pattern::File(path.to_owned()), reading, 0, stop.clone())
}

fn run_native(
    format: Format,
    ring: &Arc<Ring>,
    path: &Path,
    options: &[(String, String)],
) -> Result<u64> {
    match format {
        Format::TfRecord => native::run::<pipemill_tfrecord::TfRecord>(ring, path, options, EPOCHS),
        Format::RecordIo => native::run::<pipemill_recordio::RecordIo>(ring, path, options, EPOCHS),
        Format::Csv | Format::Numbers => {
            native::run::<pipemill_csv::Csv>(ring, path, options, EPOCHS)
        }
        Format::JsonLines => native::run::<pipemill_jsonl::Jsonl>(ring, path, options, EPOCHS),
    }
}
