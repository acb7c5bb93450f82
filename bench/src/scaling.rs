//! `make bench-scaling`: the cost of a byte, as the number of workers, channels, objects and plugins
//! and the size of records grow.
//!
//! Each figure is the difference between two runs of a host, a short one and a long one. So the
//! cost of a start is not included. Writes `target/bench/scaling/AXIS.json`, from which
//! `bench/python/scaling` makes a report.

mod axes;
mod run;

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::report::BenchPaths;
use axes::{Axis, Point};

/// Number of times that each point of an axis is measured.
const ROUNDS: usize = 5;

/// The figures of a point, one for each round.
#[derive(Serialize)]
struct Measured {
    /// The point's place on the axis.
    at: u64,
    /// The line of the table to which it belongs.
    series: String,
    /// CPU time of the host, in nanoseconds for each byte of the input.
    cpu_ns: Vec<f64>,
    /// Time, in nanoseconds for each byte of the input.
    wall_ns: Vec<f64>,
    /// Seconds from the start of the host until each channel had its first batch.
    start: Vec<f64>,
    /// The reason why there are no figures, if a host refused the point.
    refused: Option<String>,
}

#[derive(Serialize)]
struct Results<'a> {
    axis: &'a str,
    cores: usize,
    rounds: usize,
    points: Vec<Measured>,
}

/// Measures the axes of these names; without names, all.
pub fn measure(paths: &BenchPaths, names: &[String]) -> Result<()> {
    let quick = std::env::var_os("PIPEMILL_BENCH_QUICK").is_some();
    let rounds = if quick { 1 } else { ROUNDS };
    let folder = paths.dir.join(if quick { "scaling-quick" } else { "scaling" });
    std::fs::create_dir_all(&folder)?;
    for name in axes::NAMES {
        if !names.is_empty() && !names.iter().any(|wanted| wanted == name) {
            continue;
        }
        let axis = axes::prepare(name, paths, quick)?;
        let points = in_rounds(paths, &axis, rounds)?;
        let cores = std::thread::available_parallelism()?.get();
        write(&folder, &Results { axis: name, cores, rounds, points })?;
    }
    Ok(())
}

/// Measures all points once, then all of them again: the machine's speed drifts.
fn in_rounds(paths: &BenchPaths, axis: &Axis, rounds: usize) -> Result<Vec<Measured>> {
    let mut points: Vec<Measured> = axis.points.iter().map(Measured::of).collect();
    // The first round only warms caches.
    for round in 0..=rounds {
        for (point, measured) in axis.points.iter().zip(&mut points) {
            if measured.refused.is_some() {
                continue;
            }
            match one(paths, point)? {
                Ok(figures) if round > 0 => measured.add(figures),
                Ok(_) => {}
                Err(why) => measured.refused = Some(why),
            }
        }
    }
    for point in &points {
        println!("{:<10} {:<24} {:>11} {point}", axis.name, point.series, point.at);
    }
    Ok(points)
}

/// The cost of a byte, as CPU time and as time, in nanoseconds; and the seconds of the start.
type Figures = (f64, f64, f64);

/// One short run and one long run. Returns the host's message if it refuses.
fn one(paths: &BenchPaths, point: &Point) -> Result<Result<Figures, String>> {
    let short = match run::serve(paths, point, 1)? {
        Ok(short) => short,
        Err(why) => return Ok(Err(why)),
    };
    let long = match run::serve(paths, point, point.epochs)? {
        Ok(long) => long,
        Err(why) => return Ok(Err(why)),
    };
    let bytes = point.bytes as f64 * f64::from(point.epochs - 1);
    let per_byte = |long: f64, short: f64| (long - short) * 1e9 / bytes;
    Ok(Ok((per_byte(long.cpu, short.cpu), per_byte(long.wall, short.wall), long.start)))
}

impl Measured {
    fn of(point: &Point) -> Self {
        Self {
            at: point.at,
            series: point.series.clone(),
            cpu_ns: Vec::new(),
            wall_ns: Vec::new(),
            start: Vec::new(),
            refused: None,
        }
    }

    fn add(&mut self, (cpu, wall, start): Figures) {
        self.cpu_ns.push(cpu);
        self.wall_ns.push(wall);
        self.start.push(start);
    }
}

impl std::fmt::Display for Measured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(why) = &self.refused {
            return write!(f, "refused: {why}");
        }
        let median = |values: &Vec<f64>| crate::median(values.clone());
        write!(
            f,
            "{:>8.3} ns of CPU a byte, {:>8.3} ns, start {:>7.3} s",
            median(&self.cpu_ns),
            median(&self.wall_ns),
            median(&self.start)
        )
    }
}

/// The file is written atomically: a run that was stopped continues after it.
fn write(folder: &Path, results: &Results) -> Result<()> {
    let path = folder.join(format!("{}.json", results.axis));
    let part = path.with_extension("part");
    std::fs::write(&part, serde_json::to_string_pretty(results)? + "\n")?;
    std::fs::rename(&part, &path).with_context(|| format!("writing {}", path.display()))
}
