//! Formats to Python, against the readers that people use for them today. The files come from the
//! formats' own writers. Needs the packages of `requirements.txt`; without them, it says so and
//! measures nothing.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::in_turns;
use crate::python::seconds_of;
use crate::report::{BenchPaths, Report};

/// A format, and other readers of it.
struct Case {
    name: &'static str,
    /// The function of `make.py` that writes the file.
    writer: &'static str,
    decoder: &'static str,
    options: &'static str,
    /// The arguments of `consume.py`.
    consume: &'static [&'static str],
    /// The functions of `peers.py`, each with the lowest ratio that is good enough.
    peers: &'static [(&'static str, f64)],
}

const CASES: [Case; 4] = [
    Case {
        name: "csv of numbers to one array",
        writer: "numbers",
        decoder: "csv",
        options: "emit = \"dense\"",
        consume: &["arrays", "x"],
        peers: &[("pandas", 3.0), ("pyarrow", 2.0)],
    },
    Case {
        name: "recordio-protobuf to one array",
        writer: "recordio_protobuf",
        decoder: "recordio-protobuf",
        options: "",
        consume: &["arrays", "features"],
        peers: &[("sagemaker", 20.0)],
    },
    Case {
        name: "webdataset, members of 1 KiB",
        writer: "webdataset_1k",
        decoder: "webdataset",
        options: "fields = \"bin\"",
        consume: &["records"],
        peers: &[("webdataset", 20.0)],
    },
    Case {
        name: "webdataset, members of 100 KiB",
        writer: "webdataset_100k",
        decoder: "webdataset",
        options: "fields = \"bin\"",
        consume: &["records"],
        peers: &[("webdataset", 2.0)],
    },
];

pub fn measure(paths: &BenchPaths, report: &mut Report) -> Result<()> {
    let python = &paths.peers;
    if !python.exists() {
        println!(
            "formats: left out, because {} is not there; `make bench` makes it",
            python.display()
        );
        return Ok(());
    }
    for case in CASES {
        let file = paths.dir.join(format!("{}.data", case.writer));
        let script = paths.scripts.join("make.py");
        let made = Command::new(python).arg(script).arg(case.writer).arg(&file).status()?;
        ensure!(made.success(), "{}: making the file: {made}", case.name);
        let bytes = file.metadata()?.len() as f64 / 1e9;
        for (peer, bar) in case.peers {
            let (ours, theirs) = in_turns(
                || ours(paths, &case, &file),
                || {
                    let mut command = Command::new(python);
                    command.arg(paths.scripts.join("peers.py")).arg(peer).arg(&file);
                    seconds_of(&mut command)
                },
            )?;
            report.rate(case.name, bytes / ours, "GB/s", peer, bytes / theirs, Some(*bar));
        }
    }
    Ok(())
}

fn ours(paths: &BenchPaths, case: &Case, file: &Path) -> Result<f64> {
    let dir = tempfile::tempdir_in(&paths.dir)?;
    let fifo = dir.path().join("bench_0");
    mkfifo(&fifo, Mode::S_IRWXU)?;
    let config = config(dir.path(), case).context("writing the configuration")?;
    let mut command = Command::new(&paths.pipemill);
    command.arg("run").arg("--config").arg(&config).arg("--").arg(&paths.python);
    command.arg(paths.scripts.join("consume.py")).arg(&fifo).arg(file).args(case.consume);
    seconds_of(command.env("PIPEMILL_LOG", "error"))
}

fn config(dir: &Path, case: &Case) -> Result<PathBuf> {
    let path = dir.join("pipemill.toml");
    let text = format!(
        "socket = {:?}\n[[channel]]\nname = \"bench\"\nsource = {{ fifo = {:?}, epochs = 1 }}\n\
         decoder = {:?}\noptions = {{ {} }}\n",
        dir.join("s/bench.sock"),
        dir,
        case.decoder,
        case.options
    );
    std::fs::write(&path, text)?;
    Ok(path)
}
