//! Whoever stops: nothing is asked for any more, and what was asked for is let go.

use std::process::Command;

use nix::sys::signal::Signal;
use pipemill_s3_test::proxy::{Plan, Proxy};
use pipemill_tests::process::Process;
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{PATIENCE, until};

use crate::credentials::command;
use crate::reading::{BUCKET, Bucket, settings, source};

/// A proxy so slow that a part of a mebibyte, which nobody lets go, takes far longer than a test waits.
fn slow_proxy(bucket: &Bucket) -> Proxy {
    bucket.proxy(Plan { throttle: Some(2_000), ..Plan::default() })
}

fn slow() -> (Bucket, Proxy) {
    let bucket = Bucket::with([("one", vec![b'\n'; 64 << 20])]);
    let proxy = slow_proxy(&bucket);
    (bucket, proxy)
}

fn until_asked(proxy: &Proxy) {
    until("there are three requests", || proxy.in_flight() >= 3);
}

fn until_quiet(proxy: &Proxy) {
    until("no request goes on", || proxy.in_flight() == 0);
}

fn host(place: &TestDir, proxy: &Proxy, words: &[&str]) -> Command {
    let config = format!(
        "[[channel]]\nname = \"train\"\ndecoder = \"lines\"\n\
         source = {{ s3 = \"s3://{BUCKET}/one\", part_size = \"1MiB\", anonymous = true }}\n"
    );
    place.write("run.toml", config);
    let mut command = command(place, &proxy.endpoint(), &["run", "-c", "run.toml", "--"]);
    command.args(words);
    command
}

#[test]
fn sigterm_ends_all_requests() {
    let (bucket, proxy) = slow();
    let process = Process::start(&mut host(&bucket.place, &proxy, &["sleep", "1000"]));
    until_asked(&proxy);
    process.signal(Signal::SIGTERM);
    until_quiet(&proxy);
    process.wait().with_code(128 + Signal::SIGTERM as i32);
}

#[test]
fn the_commands_end_ends_all_requests() {
    let (bucket, proxy) = slow();
    let gate = bucket.place.fifo("gate");
    let words = ["sh", "-c", &format!("read line <{}; exit 3", gate.display())];
    let process = Process::start(&mut host(&bucket.place, &proxy, &words));
    until_asked(&proxy);
    std::fs::write(&gate, "go\n").unwrap();
    process.wait().with_code(3);
    until_quiet(&proxy);
}

#[test]
fn a_killed_host_has_no_requests_left() {
    let (bucket, proxy) = slow();
    let process = Process::start(&mut host(&bucket.place, &proxy, &["sleep", "1"]));
    until_asked(&proxy);
    process.signal(Signal::SIGKILL);
    until_quiet(&proxy);
    drop(process.wait());
}

#[test]
fn dropping_a_source_ends_its_requests() {
    let (_bucket, proxy) = slow();
    let mut settings = settings(&proxy.endpoint(), "one");
    settings.part_size = 1 << 20;
    let source = source(&settings);
    until_asked(&proxy);
    drop(source);
    until_quiet(&proxy);
}

#[test]
fn an_object_that_is_left_makes_room_for_the_next() {
    use pipemill_source::{Source, SourceEvent};
    let bucket = Bucket::with([("one", vec![1; 8 << 20]), ("two", vec![2; 100])]);
    let proxy = slow_proxy(&bucket);
    let mut settings = settings(&proxy.endpoint(), "");
    settings.part_size = 1 << 20;
    let mut source = source(&settings);
    let Ok(SourceEvent::Object(object)) = source.next() else { panic!("no object") };
    until_asked(&proxy);
    drop(object);
    // Its parts are let go, and the next one has its turn.
    let Ok(SourceEvent::Object(mut object)) = source.next() else { panic!("no second object") };
    let mut buffer = [0; 200];
    assert!(object.input.read(&mut buffer, Some(PATIENCE)).is_ok());
    assert_eq!(buffer[0], 2);
    source.end_epoch();
    assert!(matches!(source.next(), Ok(SourceEvent::EpochEnd(0))));
    assert!(matches!(source.next(), Ok(SourceEvent::End)));
}
