//! Rates of programs that train: `pipemill.torch.Loader` compared with the plain reader, and with
//! the usual readers of PyTorch and TensorFlow programs. Needs the environment of `make
//! test-ecosystem`, so it only runs when asked for: `make bench-loaders`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use crate::data::{self, Format};
use crate::median;
use crate::python::words;
use crate::report::{BenchPaths, Report};

/// Number of times that each side is measured. Each process measures several epochs.
const ROUNDS: usize = 5;

pub fn measure(paths: &BenchPaths, report: &mut Report) -> Result<()> {
    let python = &paths.ecosystem;
    ensure!(python.exists(), "{} is not there; `make bench-loaders` makes it", python.display());
    for (size, record, tf_bar) in [("1 KiB", 1 << 10, 5.0), ("100 KiB", 100 << 10, 2.5)] {
        let file = data::file(paths, Format::TfRecord, record)?;
        let count = data::SIZE / (record + 16);
        let name = format!("TFRecord to PyTorch, {size}");
        let plain = (record == 1 << 10).then_some(0.85);
        let peers = [("pipemill_numpy", plain), ("tf_data", Some(tf_bar))];
        compare(paths, report, &name, &file, (record, count), &peers)?;
    }
    let file = made(paths, "webdataset", 1024, 64 << 20)?;
    // `make.py` writes these files.
    let count = (64 << 20) / 1024;
    let peers = [("webdataset", Some(10.0)), ("webdataset_worker", None)];
    compare(paths, report, "tar to PyTorch, members of 1 KiB", &file, (1024, count), &peers)?;
    let rows = paths.dir.join("rows.npy");
    let write = "import numpy, sys; numpy.save(sys.argv[1], numpy.zeros((65536, 16), 'f4'))";
    ensure!(Command::new(python).arg("-c").arg(write).arg(&rows).status()?.success());
    let times: Result<Vec<_>> =
        (0..ROUNDS).map(|_| Ok(figures(run(paths, "tensors_call.py").arg(&rows))?[1])).collect();
    report.time("tensors() of a dense batch", median(times?) * 1e6, "us", 20.0);
    Ok(())
}

/// Records of `size.0` bytes, of which the file has `size.1`, by our loader and by others.
fn compare(
    paths: &BenchPaths,
    report: &mut Report,
    name: &str,
    file: &Path,
    size: (usize, usize),
    peers: &[(&str, Option<f64>)],
) -> Result<()> {
    let (record, count) = size;
    let rate = |reader: &str| -> Result<f64> {
        let mut command = run(paths, "loaders.py");
        command.arg(reader).arg(file).args([record, count].map(|number| number.to_string()));
        let found = figures(&mut command)?;
        Ok(found[0] * record as f64 / 1e9 / found[2])
    };
    let mut rates = vec![Vec::new(); peers.len() + 1];
    for _ in 0..ROUNDS {
        let readers = std::iter::once("pipemill_torch").chain(peers.iter().map(|(peer, _)| *peer));
        for (rates, reader) in rates.iter_mut().zip(readers) {
            rates.push(rate(reader)?);
        }
    }
    let mut rates = rates.into_iter().map(median);
    let ours = rates.next().unwrap_or_default();
    for ((peer, bar), theirs) in peers.iter().zip(rates) {
        report.rate(name, ours, "GB/s", peer, theirs, *bar);
    }
    Ok(())
}

/// Runs a script of the bench in that environment, with this build's host.
pub fn run(paths: &BenchPaths, script: &str) -> Command {
    let mut command = Command::new(&paths.ecosystem);
    command.arg("-W").arg("ignore").arg(paths.scripts.join(script));
    command.env("PIPEMILL", &paths.pipemill).env("PYTHONPATH", &paths.package);
    command.env("PIPEMILL_LOG", "error").env("TF_CPP_MIN_LOG_LEVEL", "3");
    command
}

/// The numbers that a script prints, at least two.
pub fn figures(command: &mut Command) -> Result<Vec<f64>> {
    let found: Vec<f64> =
        words(command)?.iter().map(|word| word.parse()).collect::<Result<_, _>>()?;
    ensure!(found.len() > 1, "{command:?}: prints no figures");
    Ok(found)
}

/// A file that `make.py` writes, of about this many bytes in records of `record` bytes.
pub fn made(paths: &BenchPaths, writer: &str, record: usize, bytes: usize) -> Result<PathBuf> {
    let path = paths.dir.join(format!("{writer}_{record}.data"));
    let mut make = run(paths, "make.py");
    make.arg(writer).args([record, bytes].map(|number| number.to_string())).arg(&path);
    ensure!(make.status()?.success(), "{}: can't be made", path.display());
    Ok(path)
}
