//! Which stage holds a channel back: each of three stages is made slow for each of three sources, with one worker and
//! with four. The slow stage waits at a gate, or has more to do, until the host itself has measured far more of it than
//! of the others. Where other programs keep the cores busy, the host says that instead.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use pipemill_ring::reader::Event;
use pipemill_ring::status_client::StatusClient;
use pipemill_s3_test::proxy::{Plan, Proxy};
use pipemill_s3_test::servers::{S3Server, S3s};
use pipemill_tests::gate::Gate;
use pipemill_tests::process::{Ended, Process};
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{BAD_PLUGIN, consumer, host, pipemill, skip_test, until};
use serde_json::Value;

/// The origin of a channel's bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
enum From {
    Fifo,
    File,
    S3,
}

const FROM: [From; 3] = [From::Fifo, From::File, From::S3];

/// The sources, each with one worker, and with four if it can be read at several places.
fn cases() -> impl Iterator<Item = (From, usize)> {
    let one = FROM.map(|from| (from, 1));
    one.into_iter().chain([(From::File, 4), (From::S3, 4)])
}

/// A channel's source, and what must live as long as it.
struct Source {
    toml: String,
    _keep: Box<dyn std::any::Any>,
}

/// A source of these bytes. With a gate it gives the first half, or nothing, before the gate is open.
fn source(place: &TestDir, from: From, bytes: &[u8], gate: Option<Gate>) -> Source {
    let nothing = Box::new(());
    match from {
        From::Fifo => {
            place.make_folder("in");
            write(place.fifo("in/train_0"), bytes, gate);
            let toml = format!("{{ fifo = {:?}, epochs = 1 }}", place.path("in"));
            Source { toml, _keep: nothing }
        }
        // A disk can't be made slow here, but a path can name a pipe.
        From::File if gate.is_some() => {
            let path = place.fifo("data");
            write(path.clone(), bytes, gate);
            Source { toml: format!("{{ file = {path:?} }}"), _keep: nothing }
        }
        From::File => {
            let path = place.write("data", bytes);
            Source { toml: format!("{{ file = {path:?} }}"), _keep: nothing }
        }
        From::S3 => {
            let server = S3s::start_open(&place.make_folder("s3"));
            server.put("bucket", "data", bytes);
            let plan = Plan::default().hook(move |request| {
                if request.target.contains("/data") {
                    gate.iter().for_each(Gate::pass);
                }
                None
            });
            let proxy = Proxy::start(&server.endpoint(), plan).expect("a port");
            let toml = format!(
                "{{ s3 = \"s3://bucket/data\", endpoint = {:?}, region = \"us-east-1\", anonymous = true }}",
                proxy.endpoint()
            );
            Source { toml, _keep: Box::new((server, proxy)) }
        }
    }
}

fn write(fifo: PathBuf, bytes: &[u8], gate: Option<Gate>) {
    let bytes = bytes.to_owned();
    std::thread::spawn(move || {
        let mut pipe = File::options().write(true).open(fifo).expect("it is there");
        let (first, second) = bytes.split_at(bytes.len() / 2);
        pipe.write_all(first).expect("it is read");
        gate.iter().for_each(Gate::pass);
        pipe.write_all(second).expect("it is read");
    });
}

/// A source without an end.
fn endless(place: &TestDir, from: From) -> Source {
    if from != From::Fifo {
        let mut source = source(place, from, b"0123456789abcdef", None);
        let end = source.toml.rfind('}').expect("it is a table");
        source.toml.insert_str(end, ", epochs = 1000000 ");
        return source;
    }
    place.make_folder("in");
    let fifo = place.fifo("in/train_0");
    std::thread::spawn(move || {
        let mut pipe = File::options().write(true).open(fifo).expect("it is there");
        // It writes until the host has gone.
        while pipe.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let toml = format!("{{ fifo = {:?}, epochs = 1 }}", place.path("in"));
    Source { toml, _keep: Box::new(()) }
}

fn start(place: &TestDir, source: &Source, decoder: &str, workers: usize) -> Process {
    Process::start(&mut host::command(&pipemill!(), place, &config(source, decoder, workers)))
}

fn config(source: &Source, decoder: &str, workers: usize) -> String {
    format!(
        "[[channel]]\nname = \"train\"\nsource = {}\nworkers = {workers}\ndecoder = {decoder}\n\
         [channel.ring]\nslots = 4\nslot_size = \"64KiB\"\n",
        source.toml
    )
}

const STAGES: [&str; 4] = ["source", "decoder", "batch", "consumer"];

/// Waits until the host has measured more than a second of this stage, and ten times as much as of the others. Of the
/// cores, half as much is enough: they have other things to do.
fn until_measured(place: &TestDir, stage: &str) {
    let mut observer = None;
    until("the host is up", || {
        observer = StatusClient::connect(&place.path("run/host.sock")).ok();
        observer.is_some()
    });
    let mut observer = observer.expect("it is connected");
    until(&format!("most of the time is the {stage}'s"), || {
        let status = observer.status().expect("the host is well");
        let status: Value = serde_json::from_slice(&status).expect("it is JSON");
        let totals = &status["channels"][0]["totals"];
        let seconds = |stage: &str| totals[stage].as_f64().expect("a number");
        let (of_stage, is_cores) = (seconds(stage), stage == "cores");
        let others =
            STAGES.iter().filter(|other| **other != stage).map(|other| seconds(other)).sum::<f64>();
        of_stage > 1.0 && of_stage > others * if is_cores { 2.0 } else { 10.0 }
    });
}

/// What the host says of the channel at its end names the stage, or the cores if they were what it waited for most.
fn check(ended: &Ended, from: From, stage: &str, words: &str) {
    let is_last = |line: &&str| {
        ["ended: ", "stopped: "]
            .iter()
            .any(|word| line.contains(&format!("channel `train` {word}")))
    };
    let line = ended.stderr.lines().find(is_last);
    let line = line.unwrap_or_else(|| panic!("{from:?}: {ended:#?}"));
    let (_, times) = line.split_once("; time: ").expect("the line has shares");
    let shares: Vec<(u32, &str)> = times
        .split(';')
        .next()
        .expect("there is one")
        .split(", ")
        .map(|share| {
            let (percent, stage) = share.split_once("% ").expect("a share");
            (percent.parse().expect("a number"), stage)
        })
        .collect();
    let of = |stage: &str| {
        shares.iter().find(|(_, word)| *word == stage).map_or(0, |(percent, _)| *percent)
    };
    let others = STAGES.iter().filter(|other| **other != stage);
    assert!(others.clone().all(|other| of(other) < of(stage)), "{from:?}: {line}");
    let has = |words: &str| line.contains(words);
    assert!(has(words) || of("cores") >= of(stage) && has("for a free core: "), "{from:?}: {line}");
}

fn lines() -> Vec<u8> {
    (0..100_000).flat_map(|number| format!("{number:08}\n").into_bytes()).collect()
}

#[test]
fn a_source_that_waits_is_named() {
    for (from, workers) in cases() {
        let (place, gate) = (TestDir::new(), Gate::default());
        let source = source(&place, from, b"one\ntwo\n", Some(gate.clone()));
        let process = start(&place, &source, "\"lines\"", workers);
        until_measured(&place, "source");
        gate.open();
        let mut reader = consumer::connect(&place.path("run/host.sock"), "train", None);
        assert_eq!(consumer::read(&mut reader).well(), [b"one", b"two"]);
        check(&process.wait().with_code(0), from, "source", "% of the time for its source: ");
    }
}

/// It computes in each call, and has more to decode until the host has measured it.
#[test]
fn a_decoder_that_is_slow_is_named() {
    for (from, workers) in cases() {
        let place = TestDir::new();
        let source = endless(&place, from);
        let decoder = format!("{BAD_PLUGIN:?}\noptions = {{ do = \"work\" }}");
        let process = start(&place, &source, &decoder, workers);
        let mut reader = consumer::connect(&place.path("run/host.sock"), "train", None);
        let reading = std::thread::spawn(move || consumer::read(&mut reader));
        until_measured(&place, "decoder");
        process.signal(Signal::SIGTERM);
        let remedy =
            match (std::thread::available_parallelism().map_or(1, |count| count.get()), from) {
                (cores, _) if cores <= workers => "have it decode less".to_owned(),
                (_, From::Fifo) => {
                    "bring the input as files, which several `workers` decode".to_owned()
                }
                (cores, _) => format!("raise `workers`, 1 of {cores} cores is used"),
            };
        let ended = process.wait().with_code(143);
        check(&ended, from, "decoder", &format!("% of the time for its decoder: {remedy}"));
        reading.join().expect("reading does not panic");
    }
}

/// It keeps its first batch, and the ring is smaller than the input.
#[test]
fn a_consumer_that_waits_is_named() {
    for (from, workers) in cases() {
        let place = TestDir::new();
        let source = source(&place, from, &lines(), None);
        let process = start(&place, &source, "\"lines\"", workers);
        let mut reader = consumer::connect(&place.path("run/host.sock"), "train", None);
        let Ok(Event::Batch(first)) = reader.next() else { panic!("expected a batch") };
        until_measured(&place, "consumer");
        let records = consumer::records(&first).len();
        drop(first);
        assert_eq!(records + consumer::read(&mut reader).well().len(), 100_000);
        check(&process.wait().with_code(0), from, "consumer", "% of the time for its consumers: ");
    }
}

/// Eight programs and the host have one core, from when the host decodes.
#[test]
fn cores_that_are_busy_with_others_are_named() {
    let test = "cores_that_are_busy_with_others_are_named";
    if !std::path::Path::new("/proc/self/schedstat").exists() {
        return skip_test(test, "a kernel that counts how long threads wait for a core");
    }
    let core = first_core();
    let on_the_core = |program: &OsStr| {
        let mut command = Command::new("taskset");
        command.args(["-c", &core]).arg(program);
        command
    };
    let busy = || Process::start(on_the_core("sh".as_ref()).args(["-c", "while :; do :; done"]));
    for workers in [1, 4] {
        let place = TestDir::new();
        let source = endless(&place, From::File);
        let decoder = format!("{BAD_PLUGIN:?}\noptions = {{ do = \"work\" }}");
        let run = host::command(&pipemill!(), &place, &config(&source, &decoder, workers));
        let process = Process::start(on_the_core(run.get_program()).args(run.get_args()));
        let mut reader = consumer::connect(&place.path("run/host.sock"), "train", None);
        let reading = std::thread::spawn(move || consumer::read(&mut reader));
        let busy: Vec<_> = std::iter::repeat_with(busy).take(8).collect();
        until_measured(&place, "cores");
        drop(busy);
        process.signal(Signal::SIGTERM);
        let ended = process.wait().with_code(143);
        assert!(ended.stderr.contains("% of the time for a free core: "), "{ended:#?}");
        reading.join().expect("reading does not panic");
    }
}

/// The number of the first core that this process may use.
fn first_core() -> String {
    let status = std::fs::read_to_string("/proc/self/status").expect("it is there");
    let cores = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let first = cores.expect("it is there").trim().split([',', '-']).next();
    first.expect("there is a core").to_owned()
}
