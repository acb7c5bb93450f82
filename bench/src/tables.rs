//! The CPU time of tables for libraries that read Arrow, compared with that of our own columns, and
//! with the libraries' own readers.

use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::data::{self, Format};
use crate::in_turns;
use crate::python::words;
use crate::report::{BenchPaths, Report};

/// Name, format, bytes of a record, options.
type Case = (&'static str, Format, usize, &'static [(&'static str, &'static str)]);

const CASES: [Case; 4] = [
    ("csv, numbers", Format::Numbers, 128, &[("types", "float64")]),
    ("csv, 4 of 8 columns text", Format::Csv, 100, MIXED),
    ("csv, text", Format::Csv, 100, &[]),
    ("jsonl, 3 texts of 6 keys", Format::JsonLines, 256, TEXTS),
];
const MIXED: &[(&str, &str)] = &[("types", "utf8,0:int64,1:float64,3:int64,4:float64")];
const TEXTS: &[(&str, &str)] = &[("fields", "/title:utf8,/text:utf8,/lang:utf8")];
/// A library may take 1.1 times the CPU of our own columns. Those keep nothing, so a table that is
/// kept has the system's work for its memory on top.
const NUMPY_BAR: f64 = 1.0 / 1.1;

pub fn measure(paths: &BenchPaths, report: &mut Report) -> Result<()> {
    for (name, format, record, options) in CASES {
        let path = data::file(paths, format, record)?;
        let gigabytes = std::fs::metadata(&path)?.len() as f64 / 1e9;
        let options = options.iter().map(|(key, value)| format!("{key:?}: {value:?}"));
        let options = format!("{{{}}}", options.collect::<Vec<_>>().join(", "));
        let run = |library: &str, records: &mut u64| -> Result<f64> {
            let mut command = Command::new(&paths.python);
            command.arg(paths.scripts.join("tables.py")).arg(library).arg(&path);
            command.arg(format.decoder()).arg(&options).env("PIPEMILL", &paths.pipemill);
            let words = words(&mut command)?;
            let [count, seconds] = words.as_slice() else {
                bail!("{library}: the script printed {words:?}");
            };
            *records = count.parse().context("a number of records")?;
            Ok(seconds.parse()?)
        };
        let mut compare = |library: &str, other: &str, baseline: &str, bar: f64| -> Result<()> {
            let mut counts = (0, 0);
            let (table, baseline_seconds) =
                in_turns(|| run(library, &mut counts.0), || run(other, &mut counts.1))?;
            ensure!(counts.0 == counts.1 && counts.0 > 0, "{name}: {counts:?} records");
            let (line, unit) = (format!("{name}, {library}"), "GB/CPU s");
            let (own, others) = (gigabytes / table, gigabytes / baseline_seconds);
            report.rate(line, own, unit, baseline, others, Some(bar));
            Ok(())
        };
        for library in ["pyarrow-batches", "pyarrow", "polars", "duckdb"] {
            compare(library, "numpy", "numpy columns", NUMPY_BAR)?;
        }
        for library in ["pyarrow", "polars", "duckdb"] {
            compare(library, &format!("own-{library}"), "its own reader", 1.0)?;
        }
    }
    Ok(())
}
