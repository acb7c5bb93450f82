//! Whoever stops: within a second nothing is asked for any more.

use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use pipemill_s3_test::proxy::{Plan, Proxy};
use pipemill_tests::PATIENCE;
use pipemill_tests::place::Place;
use pipemill_tests::process::Process;

use crate::credentials::command;
use crate::reading::{BUCKET, Bucket, settings, source};

/// As long as stopping may take; generous, because the machine may be busy.
const SOON: Duration = Duration::from_secs(5);

/// A bucket that gives its object slowly enough to be stopped meanwhile.
fn slow() -> (Bucket, Proxy) {
    let bucket = Bucket::with([("one", vec![b'\n'; 64 << 20])]);
    let proxy = bucket.proxy(Plan { throttle: Some(200_000), ..Plan::default() });
    (bucket, proxy)
}

fn wait_for_requests(proxy: &Proxy) {
    let until = Instant::now() + PATIENCE;
    while proxy.in_flight() < 3 {
        assert!(Instant::now() < until, "it never asked");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn is_quiet_soon(proxy: &Proxy) {
    let from = Instant::now();
    while proxy.in_flight() > 0 {
        assert!(from.elapsed() < SOON, "{} requests go on", proxy.in_flight());
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn host(place: &Place, proxy: &Proxy, words: &[&str]) -> Command {
    let config = format!(
        "[[channel]]\nname = \"train\"\ndecoder = \"lines\"\n\
         source = {{ s3 = \"s3://{BUCKET}/one\", part = \"1MiB\", anonymous = true }}\n"
    );
    place.write("run.toml", config);
    let mut command = command(place, &proxy.endpoint(), &["run", "-c", "run.toml", "--"]);
    command.args(words);
    command
}

#[test]
fn sigterm() {
    let (bucket, proxy) = slow();
    let process = Process::start(&mut host(&bucket.place, &proxy, &["sleep", "1000"]));
    wait_for_requests(&proxy);
    process.signal(Signal::SIGTERM);
    is_quiet_soon(&proxy);
    process.wait().with_code(128 + Signal::SIGTERM as i32);
}

#[test]
fn a_command_that_dies() {
    let (bucket, proxy) = slow();
    let gate = bucket.place.fifo("gate");
    let words = ["sh", "-c", &format!("read line <{}; exit 3", gate.display())];
    let process = Process::start(&mut host(&bucket.place, &proxy, &words));
    wait_for_requests(&proxy);
    std::fs::write(&gate, "go\n").unwrap();
    process.wait().with_code(3);
    is_quiet_soon(&proxy);
}

#[test]
fn kill_9() {
    let (bucket, proxy) = slow();
    let process = Process::start(&mut host(&bucket.place, &proxy, &["sleep", "1"]));
    wait_for_requests(&proxy);
    process.signal(Signal::SIGKILL);
    is_quiet_soon(&proxy);
    drop(process.wait());
}

#[test]
fn a_source_that_is_dropped() {
    let (_bucket, proxy) = slow();
    let mut settings = settings(&proxy.endpoint(), "one");
    settings.part = 1 << 20;
    let source = source(&settings);
    wait_for_requests(&proxy);
    drop(source);
    is_quiet_soon(&proxy);
}

#[test]
fn an_object_that_is_left() {
    use pipemill::source::{Source, Step};
    let bucket = Bucket::with([("one", vec![1; 8 << 20]), ("two", vec![2; 100])]);
    let proxy = bucket.proxy(Plan { throttle: Some(400_000), ..Plan::default() });
    let mut settings = settings(&proxy.endpoint(), "");
    settings.part = 1 << 20;
    let mut source = source(&settings);
    let Ok(Step::Object(object)) = source.next() else { panic!("no object") };
    wait_for_requests(&proxy);
    drop(object);
    // Its parts are let go, and the next one has its turn.
    let Ok(Step::Object(mut object)) = source.next() else { panic!("no second object") };
    let mut buffer = [0; 200];
    assert!(object.input.read(&mut buffer, Some(PATIENCE)).is_ok());
    assert_eq!(buffer[0], 2);
    source.end_epoch();
    assert!(matches!(source.next(), Ok(Step::EpochEnd(0))));
    assert!(matches!(source.next(), Ok(Step::End)));
}
