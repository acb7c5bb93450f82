//! The program for a profiler: `pipemill-bench stages CASE SECONDS` decodes the file of a case of
//! `decode` for that long, in its main thread, and prints the number of records.

use std::time::Instant;

use anyhow::{Context, Result, bail};
use pipemill_source::Stop;

use crate::data;
use crate::decode::{CASES, options_of, source};
use crate::host::BenchDecoder;
use crate::report::BenchPaths;

/// Number of times that a channel reads the file.
const EPOCHS: u32 = 20;

/// Without arguments, prints the names of the cases.
pub fn run(paths: &BenchPaths, arguments: &[String]) -> Result<()> {
    let [name, seconds] = arguments else {
        CASES.iter().for_each(|(name, ..)| println!("{name}"));
        return Ok(());
    };
    let Some((_, format, record, options, _)) = CASES.iter().find(|(known, ..)| known == name)
    else {
        bail!("there is no case {name:?}");
    };
    let seconds: f64 = seconds.parse().context("the number of seconds")?;
    let path = data::file(paths, *format, *record)?;
    let decoder = BenchDecoder::new(format.decoder(), &options_of(options))?;
    let (stop, started, mut records) = (Stop::new()?, Instant::now(), 0);
    while started.elapsed().as_secs_f64() < seconds {
        let ran = decoder.run(&paths.dir, Box::new(source(&path, EPOCHS, &stop)))?;
        records += ran.totals.records;
    }
    println!("{records}");
    Ok(())
}
