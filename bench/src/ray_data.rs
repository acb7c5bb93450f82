//! Seconds of Ray Data: `pipemill.ray.read` compared with Ray's own readers. Needs the environment
//! of `make test-ecosystem`, so it only runs when asked for: `make bench-loaders`.

use std::path::Path;

use anyhow::{Result, ensure};

use crate::data::{self, Format};
use crate::loaders::{figures, made, run};
use crate::report::{BenchPaths, Report};

/// Number of times that each side is measured: Ray's reader of TFRecords takes 15 s for 6 MB.
const ROUNDS: usize = 3;

pub fn measure(paths: &BenchPaths, report: &mut Report) -> Result<()> {
    let python = &paths.ecosystem;
    ensure!(python.exists(), "{} is not there; `make bench-loaders` makes it", python.display());
    let csv = data::file(paths, Format::Csv, 100)?;
    let examples = made(paths, "tf_example", 512, 4 << 20)?;
    let tar = made(paths, "webdataset", 1024, 64 << 20)?;
    for (name, format, file, peer, bar) in [
        ("csv to Ray, types mixed", "csv", &csv, "ray.data.read_csv", 1.0),
        ("TFRecord to Ray, 5 features", "tf-example", &examples, "read_tfrecords", 3.0),
        ("tar to Ray, members of 1 KiB", "webdataset", &tar, "read_webdataset", 3.0),
    ] {
        compare(paths, report, (name, format, file), peer, bar)?;
    }
    Ok(())
}

/// One format by our reader and by Ray's.
fn compare(
    paths: &BenchPaths,
    report: &mut Report,
    (name, format, file): (&str, &str, &Path),
    peer: &str,
    bar: f64,
) -> Result<()> {
    let mut command = run(paths, "ray_data.py");
    command.arg(format).arg(file).arg(ROUNDS.to_string()).env("RAY_USAGE_STATS_ENABLED", "0");
    let found = figures(&mut command)?;
    let [records, ours, theirs] = found[..] else {
        anyhow::bail!("{name}: the script printed {found:?}");
    };
    ensure!(records > 0.0, "{name}: there are no records");
    let bytes = std::fs::metadata(file)?.len() as f64 / 1e9;
    report.rate(name, bytes / ours, "GB/s", peer, bytes / theirs, Some(bar));
    Ok(())
}
