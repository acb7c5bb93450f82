//! The table of results: on the terminal, and as JSON for programs.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::Serialize;

/// Paths that the benches use.
pub struct BenchPaths {
    /// The folder for data and the report: `target/bench`.
    pub dir: PathBuf,
    /// The `pipemill` binary of the same build.
    pub pipemill: PathBuf,
    /// The folder of the bench's Python scripts.
    pub scripts: PathBuf,
    /// A Python with the reader installed.
    pub python: PathBuf,
    /// A Python with the libraries that people train with, of `make test-ecosystem`.
    pub ecosystem: PathBuf,
    /// The folder of the reader's package.
    pub package: PathBuf,
}

impl BenchPaths {
    pub fn find() -> Result<Self> {
        let own = std::env::current_exe()?;
        let profile = own.parent().context("the bench's folder")?;
        let target = profile.parent().context("the target folder")?;
        let dir = target.join("bench");
        std::fs::create_dir_all(&dir)?;
        let scripts = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("python");
        let python = std::env::var_os("PIPEMILL_PYTHON").map(PathBuf::from);
        let python = python.unwrap_or_else(|| target.join("venv/bin/python"));
        let ecosystem = target.join("venv-ecosystem/bin/python");
        let package = scripts.join("../../python/src");
        let pipemill = profile.join("pipemill");
        Ok(Self { dir, pipemill, scripts, python, ecosystem, package })
    }
}

/// One line of the table. A higher ratio is better.
#[derive(Serialize)]
pub struct Row {
    pub name: String,
    pub value: f64,
    pub unit: &'static str,
    pub baseline: String,
    pub baseline_value: f64,
    pub ratio: f64,
    /// The lowest ratio that is good enough. `None` if the row is only for information.
    pub bar: Option<f64>,
}

#[derive(Default)]
pub struct Report {
    rows: Vec<Row>,
}

impl Report {
    /// Adds a rate and the rate of its baseline.
    pub fn rate(
        &mut self,
        name: impl Into<String>,
        value: f64,
        unit: &'static str,
        baseline: &str,
        baseline_value: f64,
        bar: Option<f64>,
    ) {
        let ratio = value / baseline_value;
        self.add(Row {
            name: name.into(),
            value,
            unit,
            baseline: baseline.into(),
            baseline_value,
            ratio,
            bar,
        });
    }

    /// Adds a time, or another value, that should not exceed a limit.
    pub fn time(&mut self, name: impl Into<String>, value: f64, unit: &'static str, limit: f64) {
        let baseline = format!("at most {limit} {unit}");
        let ratio = limit / value;
        self.add(Row {
            name: name.into(),
            value,
            unit,
            baseline,
            baseline_value: limit,
            ratio,
            bar: Some(1.0),
        });
    }

    fn add(&mut self, row: Row) {
        let bar = match row.bar {
            None => String::new(),
            Some(bar) if row.ratio >= bar => format!("bar {bar:.2}"),
            Some(bar) => format!("bar {bar:.2} MISSED"),
        };
        println!(
            "{:<44} {:>10.3} {:<7} {:<34} {:>10.3}  ratio {:>6.2}  {bar}",
            row.name, row.value, row.unit, row.baseline, row.baseline_value, row.ratio
        );
        self.rows.push(row);
    }

    pub fn write(&self, paths: &BenchPaths) -> Result<()> {
        let path = paths.dir.join("report.json");
        std::fs::write(&path, serde_json::to_string_pretty(&self.rows)? + "\n")?;
        let missed =
            self.rows.iter().filter(|row| row.bar.is_some_and(|bar| row.ratio < bar)).count();
        println!("\n{} figures, {missed} below their bar; {}", self.rows.len(), path.display());
        Ok(())
    }
}
