//! `make bench`: compares pipemill with baselines, as ratios. Both sides are measured in the same
//! run, on data in the page cache.
//!
//! Prints a table, and writes it as JSON to `target/bench/report.json`. Arguments select the parts
//! to run (`decode`, `fifo`, `python`, `tables`, `s3`, `latency`, `shuffle`, `batches`, `resume`,
//! `index`, `operate`, `loaders`, `ray`). Without arguments, all except for `loaders` and `ray` run.
//!
//! `pipemill-bench scaling` measures for `make bench-scaling`, `pipemill-bench read` is a reader of
//! `make bench-peers`, and `pipemill-bench stages` is what `make bench-stages` profiles.

#![forbid(unsafe_code)]

mod batches;
mod data;
mod decode;
mod fifo;
mod host;
mod index;
mod latency;
mod loaders;
mod native;
mod operate;
mod python;
mod ray_data;
mod report;
mod resume;
mod rust_readers;
mod s3;
mod scaling;
mod shuffle;
mod stages;
mod tables;

use anyhow::Result;

/// Number of times that each side is measured. The sides alternate and their medians are compared,
/// because the machine's speed drifts.
const ROUNDS: usize = 7;

fn main() -> Result<()> {
    let parts: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|name| name == part);
    if parts.first().is_some_and(|part| part == "read") {
        return rust_readers::serve(&parts[1..]);
    }
    let paths = report::BenchPaths::find()?;
    if parts.first().is_some_and(|part| part == "scaling") {
        return scaling::measure(&paths, &parts[1..]);
    }
    if parts.first().is_some_and(|part| part == "stages") {
        return stages::run(&paths, &parts[1..]);
    }
    let mut report = report::Report::default();
    if wanted("decode") {
        decode::measure(&paths, &mut report)?;
    }
    if wanted("fifo") {
        fifo::measure(&paths, &mut report)?;
    }
    if wanted("python") {
        python::measure(&paths, &mut report)?;
    }
    if wanted("tables") {
        tables::measure(&paths, &mut report)?;
    }
    if wanted("s3") {
        s3::measure(&paths, &mut report)?;
    }
    if wanted("latency") {
        latency::measure(&paths, &mut report)?;
    }
    if wanted("shuffle") {
        shuffle::measure(&paths, &mut report)?;
    }
    if wanted("batches") {
        batches::measure(&paths, &mut report)?;
    }
    if wanted("resume") {
        resume::measure(&paths, &mut report)?;
    }
    if wanted("index") {
        index::measure(&paths, &mut report)?;
    }
    if wanted("operate") {
        operate::measure(&paths, &mut report)?;
    }
    if parts.iter().any(|name| name == "loaders") {
        loaders::measure(&paths, &mut report)?;
    }
    if parts.iter().any(|name| name == "ray") {
        ray_data::measure(&paths, &mut report)?;
    }
    report.write(&paths)
}

/// The median seconds of two alternating measurements.
fn in_turns(
    mut one: impl FnMut() -> Result<f64>,
    mut other: impl FnMut() -> Result<f64>,
) -> Result<(f64, f64)> {
    let (mut ones, mut others) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let (a, b) = (one()?, other()?);
        // The first round only warms caches.
        if round > 0 {
            ones.push(a);
            others.push(b);
        }
    }
    Ok((median(ones), median(others)))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
