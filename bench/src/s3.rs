//! Objects in S3, from servers on this machine. The baselines are requests that discard the bytes,
//! with and without the latency and rate of the real S3.

mod discard;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use pipemill_s3_test::proxy::{Plan, Proxy};
use pipemill_s3_test::servers::{Rclone, S3Server, S3s};
use pipemill_source::s3::{
    Access, CONNECTION_RATE, DEFAULT_CONCURRENCY, Objects, S3Runtime, Selection, Settings,
    default_budget,
};
use pipemill_source::{Start, Stop};

use crate::data::{self, Format};
use crate::host::{BenchDecoder, Ran};
use crate::report::{BenchPaths, Report};
use crate::{in_turns, median};

pub const BUCKET: &str = "bench-bucket";
/// Requests at once for connections that are as slow as those of S3. They fill the line, but leave
/// CPU time for the server and the proxy, which run on the same machine.
pub const CONNECTIONS: usize = 8;
/// The time to the first byte of S3.
pub const LATENCY: Duration = Duration::from_millis(30);
/// The number of rounds if one round takes seconds.
const FEW: usize = 3;

/// The variable that names another server over `target/bench/s3` to measure, as `NAME=URL`.
const OTHER: &str = "PIPEMILL_BENCH_S3";

/// A server, and the part of its maximal rate that pipemill should reach.
struct Target {
    name: String,
    endpoint: String,
    bar: Option<f64>,
    /// The server's process. It ends when this is dropped.
    _server: Option<Box<dyn S3Server>>,
}

impl Target {
    fn of(name: &str, server: impl S3Server + 'static, bar: Option<f64>) -> Self {
        let endpoint = server.endpoint();
        Self { name: name.to_owned(), endpoint, bar, _server: Some(Box::new(server)) }
    }
}

/// The servers to measure. The tests' own server has no bar, because it is more than twice as fast
/// as any other: two processors can't run it, fetch and decode at its rate.
fn targets(folder: &Path) -> Vec<Target> {
    let mut targets = vec![Target::of("s3-server", S3s::start_open(folder), None)];
    if let Some(server) = Rclone::start_open_over_fixed(folder) {
        targets.push(Target::of("rclone", server, Some(0.75)));
    }
    if let Ok(other) = std::env::var(OTHER)
        && let Some((name, endpoint)) = other.split_once('=')
    {
        let (name, endpoint) = (name.to_owned(), endpoint.to_owned());
        targets.push(Target { name, endpoint, bar: Some(0.9), _server: None });
    }
    targets
}

pub fn measure(paths: &BenchPaths, report: &mut Report) -> Result<()> {
    let folder = objects(paths)?;
    let targets = targets(&folder);
    let decoder = BenchDecoder::new("tfrecord", &[])?;
    for target in &targets {
        at_full_rate(paths, &decoder, target, report)?;
    }
    let s3s = &targets[0];
    at_the_rate_of_s3(paths, &decoder, s3s, report)?;
    many_small(paths, &decoder, s3s, report)?;
    memory(paths, s3s, report)?;
    Ok(())
}

/// Makes one object of 1 GiB, 64 of 16 MiB and 10,000 of 10 KiB. They all contain only complete
/// records.
pub fn objects(paths: &BenchPaths) -> Result<PathBuf> {
    let folder = paths.dir.join("s3");
    let bucket = folder.join(BUCKET);
    if bucket.join("ready").exists() {
        return Ok(folder);
    }
    let large = data::bytes(&data::file(paths, Format::TfRecord, 100 << 10)?)?;
    let record = (100 << 10) + 16;
    for name in ["one", "many", "small"] {
        std::fs::create_dir_all(bucket.join(name))?;
    }
    std::fs::write(bucket.join("one/1GiB"), large.repeat(4))?;
    let part = (16 << 20) / record * record;
    for (number, part) in large.chunks_exact(part).cycle().take(64).enumerate() {
        std::fs::write(bucket.join(format!("many/{number:02}")), part)?;
    }
    let small = data::bytes(&data::file(paths, Format::TfRecord, 1 << 10)?)?;
    let part = 10 * ((1 << 10) + 16);
    for (number, part) in small.chunks_exact(part).cycle().take(10_000).enumerate() {
        std::fs::write(bucket.join(format!("small/{number:05}")), part)?;
    }
    std::fs::write(bucket.join("ready"), "")?;
    Ok(folder)
}

fn settings(endpoint: &str, prefix: &str) -> Settings {
    let address = format!("s3://{BUCKET}/{prefix}").parse().expect("it is an address");
    let mut settings = Settings::new(Selection::Prefixes(vec![address]));
    settings.access = Access {
        endpoint: Some(endpoint.to_owned()),
        region: Some("us-east-1".to_owned()),
        anonymous: true,
        ..Access::default()
    };
    settings
}

/// Reads all objects with the prefix, through the sandbox into a ring.
fn through_host(paths: &BenchPaths, decoder: &BenchDecoder, settings: Settings) -> Result<Ran> {
    let s3 = S3Runtime::start(default_budget())?;
    let began = Instant::now();
    let source = Objects::new(s3, settings, Start::default(), Stop::new()?);
    let ran = decoder.run(&paths.dir, Box::new(source))?;
    Ok(Ran { seconds: began.elapsed().as_secs_f64(), ..ran })
}

/// Measures at the rate that the server has.
fn at_full_rate(
    paths: &BenchPaths,
    decoder: &BenchDecoder,
    target: &Target,
    report: &mut Report,
) -> Result<()> {
    let endpoint = &target.endpoint;
    for (name, prefix) in [("1 GiB", "one/"), ("64 x 16 MiB", "many/")] {
        let keys = keys(paths, prefix)?;
        let size = size(&keys);
        let (host, bare) = in_turns(
            || Ok(through_host(paths, decoder, settings(endpoint, prefix))?.seconds),
            || discard::all(endpoint, BUCKET, &keys, DEFAULT_CONCURRENCY),
        )?;
        let name = format!("S3 ({}), {name}, to the ring", target.name);
        report.rate(name, size / host, "GB/s", "bare ranged GETs", size / bare, target.bar);
    }
    Ok(())
}

/// Measures with the latency and the rate per connection of the real S3.
fn at_the_rate_of_s3(
    paths: &BenchPaths,
    decoder: &BenchDecoder,
    target: &Target,
    report: &mut Report,
) -> Result<()> {
    let plan = Plan { latency: LATENCY, throttle: Some(CONNECTION_RATE), ..Plan::default() };
    let proxy = Proxy::start(&target.endpoint, plan)?;
    for (name, prefix) in [("1 GiB", "one/"), ("64 x 16 MiB", "many/")] {
        let keys = keys(paths, prefix)?;
        let size = size(&keys);
        let (mut times, mut limits, mut firsts) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..FEW {
            let settings = settings(&proxy.endpoint(), prefix);
            let settings = Settings { concurrency: CONNECTIONS, ..settings };
            let ran = through_host(paths, decoder, settings)?;
            times.push(ran.seconds);
            firsts.push(ran.first);
            limits.push(discard::all(&proxy.endpoint(), BUCKET, &keys, CONNECTIONS)?);
        }
        let line = CONNECTIONS as f64 * CONNECTION_RATE as f64 / 1e9;
        let limit = (size / median(limits)).min(line);
        let title = format!("S3, 30 ms, {CONNECTIONS} x 90 MB/s, {name}");
        let baseline = "bare GETs, or all connections";
        report.rate(title, size / median(times), "GB/s", baseline, limit, Some(0.9));
        let title = format!("S3, 30 ms, first record of {name}");
        report.time(title, median(firsts) * 1e3, "ms", 130.0);
    }
    Ok(())
}

fn many_small(
    paths: &BenchPaths,
    decoder: &BenchDecoder,
    target: &Target,
    report: &mut Report,
) -> Result<()> {
    let proxy = Proxy::start(&target.endpoint, Plan { latency: LATENCY, ..Plan::default() })?;
    let ran = through_host(paths, decoder, settings(&proxy.endpoint(), "small/"))?;
    let ideal = DEFAULT_CONCURRENCY as f64 / LATENCY.as_secs_f64();
    let name = "S3, 30 ms, 10,000 objects of 10 KiB";
    report.rate(
        name,
        10_000.0 / ran.seconds,
        "1/s",
        "requests at once / latency",
        ideal,
        Some(0.8),
    );
    Ok(())
}

fn configuration(dir: &Path, endpoint: &str, prefix: &str) -> Result<PathBuf> {
    let path = dir.join("pipemill.toml");
    let text = format!(
        "socket = \"{}/s/bench.sock\"\n[[channel]]\nname = \"bench\"\ndecoder = \"tfrecord\"\n\
         source = {{ s3 = \"s3://{BUCKET}/{prefix}\", endpoint = \"{endpoint}\", region = \"us-east-1\", \
         anonymous = true }}\n",
        dir.display()
    );
    std::fs::write(&path, text)?;
    Ok(path)
}

fn host(paths: &BenchPaths, dir: &Path, endpoint: &str, script: &str) -> Result<Command> {
    let mut command = Command::new(&paths.pipemill);
    command.arg("run").arg("--config").arg(configuration(dir, endpoint, "one/")?);
    command.arg("--").arg(&paths.python).arg(paths.scripts.join(script));
    command.env("PIPEMILL_LOG", "error");
    compiled(&mut command);
    Ok(command)
}

/// Lets Python keep its compiled modules, regardless of this bench's environment.
fn compiled(command: &mut Command) {
    command.env_remove("PYTHONDONTWRITEBYTECODE");
}

/// The host's peak memory, including its ring and the bytes that it fetched ahead.
fn memory(paths: &BenchPaths, target: &Target, report: &mut Report) -> Result<()> {
    let dir = tempfile::tempdir_in(&paths.dir)?;
    let mut command = host(paths, dir.path(), &target.endpoint, "host_memory.py")?;
    let output = command.stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "{command:?}: {}", output.status);
    let text = String::from_utf8(output.stdout)?;
    let mib: f64 = text.trim().parse().context("host_memory.py prints a number")?;
    let budget = default_budget() >> 20;
    // The ring has 16 slots of 4 MiB; another 64 MiB are for the host itself.
    let limit = (64 + budget + 64) as f64;
    report.time("S3, 1 GiB: memory with budget and ring", mib, "MiB", limit);
    Ok(())
}

/// The keys of the objects with a prefix, and their sizes.
pub fn keys(paths: &BenchPaths, prefix: &str) -> Result<Vec<(String, u64)>> {
    let mut keys = Vec::new();
    for entry in std::fs::read_dir(paths.dir.join("s3").join(BUCKET).join(prefix))? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        keys.push((name, entry.metadata()?.len()));
    }
    keys.sort();
    Ok(keys)
}

fn size(keys: &[(String, u64)]) -> f64 {
    keys.iter().map(|(_, size)| *size).sum::<u64>() as f64 / 1e9
}
