//! The costs of operation: the start of a run with a command, the host's memory, and the rate while
//! metrics are scraped and a trace is written.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use pipemill_ring::reader::{Event, Reader};

use crate::data::{self, Format};
use crate::latency::{KillOnDrop, connect};
use crate::report::{BenchPaths, Report};
use crate::{ROUNDS, in_turns, median};

/// The interval between two scrapes of the metrics.
const SCRAPE: Duration = Duration::from_secs(1);
/// Number of times that the input is read in a run.
const EPOCHS: u32 = 32;

pub fn measure(paths: &BenchPaths, report: &mut Report) -> Result<()> {
    let input = data::file(paths, Format::TfRecord, 100 << 10)?;
    let times: Result<Vec<_>> = (0..ROUNDS).map(|_| start(paths, &input)).collect();
    report.time("exec to the command's first word, 2 channels", median(times?) * 1e3, "ms", 150.0);
    let memory = serve(paths, &input, Observed::No)?.memory as f64 / (1 << 20) as f64;
    report.time("the host's memory outside of rings", memory, "MiB", 60.0);
    let rate = |watched| Ok(serve(paths, &input, watched)?.seconds);
    let (plain, watched) = in_turns(|| rate(Observed::No), || rate(Observed::Yes))?;
    let gigabytes = input.metadata()?.len() as f64 * f64::from(EPOCHS) / 1e9;
    report.rate(
        "file to ring, metrics and trace on",
        gigabytes / watched,
        "GB/s",
        "the same with them off",
        gigabytes / plain,
        Some(0.98),
    );
    Ok(())
}

/// Seconds from the start of the host to the first output of its command, which writes at once.
fn start(paths: &BenchPaths, input: &Path) -> Result<f64> {
    let dir = tempfile::tempdir_in(&paths.dir)?;
    let channel = |name, decoder| {
        format!(
            "[[channel]]\nname = \"{name}\"\nsource = {{ file = {input:?} }}\ndecoder = \"{decoder}\"\n"
        )
    };
    let config = dir.path().join("pipemill.toml");
    let channels = channel("train", "tfrecord") + &channel("validation", "csv");
    std::fs::write(&config, format!("socket = {:?}\n{channels}", dir.path().join("s/sock")))?;
    let mut command = Command::new(&paths.pipemill);
    command.arg("run").arg("--config").arg(config).args(["--", "sh", "-c", "echo; exec sleep 60"]);
    command.env("PIPEMILL_LOG", "off").stdin(Stdio::null()).stdout(Stdio::piped());
    // The host has its own process group, which is ended below together with the command.
    command.process_group(0);
    let began = Instant::now();
    let mut host = KillOnDrop(command.spawn().context("starting pipemill")?);
    let out = host.0.stdout.as_mut().context("its output")?;
    ensure!(out.read(&mut [0])? == 1, "the command said nothing");
    let seconds = began.elapsed().as_secs_f64();
    nix::sys::signal::kill(pid(&host.0), nix::sys::signal::Signal::SIGTERM)?;
    host.0.wait()?;
    Ok(seconds)
}

fn pid(child: &Child) -> nix::unistd::Pid {
    nix::unistd::Pid::from_raw(child.id() as i32)
}

#[derive(Clone, Copy, PartialEq)]
enum Observed {
    No,
    Yes,
}

struct Served {
    seconds: f64,
    /// The largest resident memory of the host, without shared memory, in bytes.
    memory: u64,
}

/// Serves the input to a consumer that only takes the batches.
fn serve(paths: &BenchPaths, input: &Path, watched: Observed) -> Result<Served> {
    let dir = tempfile::tempdir_in(&paths.dir)?;
    let socket = dir.path().join("s/sock");
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let metrics = match watched {
        Observed::No => String::new(),
        Observed::Yes => format!("metrics = \"127.0.0.1:{port}\"\n"),
    };
    let config = dir.path().join("pipemill.toml");
    let text = format!(
        "socket = {socket:?}\n{metrics}[[channel]]\nname = \"bench\"\n\
         source = {{ file = {input:?}, epochs = {EPOCHS} }}\ndecoder = \"tfrecord\"\n"
    );
    std::fs::write(&config, text)?;
    let mut command = Command::new(&paths.pipemill);
    command.arg("run").arg("--config").arg(config);
    if watched == Observed::Yes {
        command.arg("--trace").arg(dir.path().join("trace.json"));
    }
    let host =
        KillOnDrop(command.env("PIPEMILL_LOG", "error").spawn().context("starting pipemill")?);
    let mut reader = connect(&socket)?;
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let status = scope.spawn(|| {
            let mut most = 0;
            while !over.load(Ordering::Relaxed) {
                most = most.max(own_memory(host.0.id()));
                if watched == Observed::Yes {
                    // The host may have ended in the meantime.
                    let _ = scrape(port);
                }
                thread::sleep(SCRAPE);
            }
            most
        });
        let began = Instant::now();
        let read = read(&mut reader);
        let seconds = began.elapsed().as_secs_f64();
        over.store(true, Ordering::Relaxed);
        // A panic of that thread becomes a panic of this one.
        let memory = status.join().expect("it does not panic");
        read.map(|()| Served { seconds, memory })
    })
}

fn read(reader: &mut Reader) -> Result<()> {
    loop {
        if let Event::StreamEnd = reader.next()? {
            return Ok(());
        }
    }
}

fn own_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let kib = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok())
    };
    (kib("VmRSS:").unwrap_or(0)).saturating_sub(kib("RssShmem:").unwrap_or(0)) << 10
}

fn scrape(port: u16) -> std::io::Result<()> {
    let mut socket = TcpStream::connect(("127.0.0.1", port))?;
    socket.write_all(b"GET /metrics HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")?;
    std::io::copy(&mut socket, &mut std::io::sink()).map(drop)
}
