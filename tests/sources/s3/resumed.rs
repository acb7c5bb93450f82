//! A job that is killed in the middle of an object goes on there, and fetches only the rest.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::Signal;
use pipemill_ring::protocol::{Hello, State};
use pipemill_ring::reader::{Event, Reader};
use pipemill_s3_test::proxy::{Plan, Proxy, Request};
use pipemill_tests::bucket::{BUCKET, Bucket};
use pipemill_tests::host::{self, Host};
use pipemill_tests::process::Process;
use pipemill_tests::{pipemill, until};

const LINES: usize = 10_000;
/// Records of a batch.
const BATCH: usize = 100;

fn line(number: usize) -> String {
    format!("{number:060}")
}

/// An object of 600 KB, in which the lines have these numbers.
fn object(from: usize) -> String {
    (from..from + LINES).map(|number| line(number) + "\n").collect()
}

/// A host that reads the bucket through the proxy, and goes on at the state in a file.
fn start(bucket: &Bucket, proxy: &Proxy, state: Option<&State>) -> Host {
    start_with("decoder = \"lines\"", bucket, proxy, state)
}

const CSV: &str = "decoder = \"csv\"\noptions = { header = true }";

fn start_with(decoder: &str, bucket: &Bucket, proxy: &Proxy, state: Option<&State>) -> Host {
    let config = format!(
        "[[channel]]\nname = \"train\"\n{decoder}\nbatch = {BATCH}\nsource = {{ s3 = \
         \"s3://bucket/data/\", endpoint = \"{}\", region = \"us-east-1\", anonymous = true, part_size = \
         \"64KiB\", concurrency = 2, stall_timeout = \"1h\" }}\n[channel.ring]\nslots = 4\nslot_size = \
         \"64KiB\"\n",
        proxy.endpoint()
    );
    let mut command = host::command(&pipemill!(), &bucket.place, &config);
    if let Some(state) = state {
        let text = serde_json::to_string(state).expect("a state is JSON");
        command.arg("--resume").arg(bucket.place.write("state.json", text));
    }
    Host { process: Process::start(&mut command), socket: bucket.place.path("run/host.sock") }
}

fn connect(host: &Host, state: Option<&State>) -> Reader {
    let mut hello = Hello::new("train", "test");
    hello.state = state.map(|state| serde_json::to_value(state).expect("a state is JSON"));
    let mut reader = None;
    until("the host answers", || {
        reader = Reader::connect_as(&host.socket, &hello, false).ok();
        reader.is_some()
    });
    reader.expect("it answered")
}

/// The next `batches` batches, or all to the end.
fn read(reader: &mut Reader, batches: Option<usize>) -> Vec<String> {
    let (mut lines, mut count) = (Vec::new(), 0);
    while batches.is_none_or(|batches| count < batches) {
        match reader.next().expect("the host goes on") {
            Event::Batch(batch) => {
                count += 1;
                let line = |record| batch.field(record, 0).expect("a line").to_vec();
                lines.extend(
                    (0..batch.records())
                        .map(line)
                        .map(|line| String::from_utf8(line).expect("text")),
                );
            }
            Event::EpochEnd(_) => {}
            Event::StreamEnd => break,
        }
    }
    lines
}

#[test]
fn a_killed_job_goes_on_in_its_object_and_fetches_only_the_rest() {
    let bucket = Bucket::with([("data/0", object(0)), ("data/1", object(LINES))]);
    let proxy = bucket.proxy(Plan::default());
    let host = start(&bucket, &proxy, None);
    let mut reader = connect(&host, None);
    // More than half of the second object.
    let given = read(&mut reader, Some(160));
    let state = reader.state().expect("it was given all batches");
    let offset = state.place.position.offset;
    assert!(state.place.position.object.ends_with("data/1") && offset > 300_000, "{state:?}");
    read(&mut reader, Some(3));
    host.process.signal(Signal::SIGKILL);
    host.wait();
    let expected: Vec<_> = (given.len()..2 * LINES).map(line).collect();

    let proxy = bucket.proxy(Plan::default());
    let host = start(&bucket, &proxy, Some(&state));
    let rest = read(&mut connect(&host, None), None);
    assert_eq!(rest, expected, "by run --resume");
    host.wait().with_code(0);
    let log = proxy.log();
    let gets: Vec<_> = log.iter().filter(|entry| entry.request.target.contains("/data/")).collect();
    assert!(
        !gets.is_empty() && gets.iter().all(|get| get.request.target.contains("/data/1")),
        "{gets:#?}"
    );
    for get in gets {
        let range = get.request.range.as_deref().expect("a range");
        let from = range.trim_start_matches("bytes=").split('-').next().expect("a number");
        assert!(
            from.parse::<u64>().expect("a number") >= offset,
            "{range} is before byte {offset}"
        );
    }

    let proxy = bucket.proxy(Plan::default());
    let host = start(&bucket, &proxy, None);
    let rest = read(&mut connect(&host, Some(&state)), None);
    assert_eq!(rest, expected, "by connect");
}

/// A header is read first, and then the object is asked for again, from the place of the state on.
#[test]
fn an_object_that_changes_between_its_header_and_the_place_of_a_state() {
    let table = |from: usize| format!("{}\n{}", line(0).replace('0', "h"), object(from));
    let bucket = Bucket::with([("data/0", table(0))]);
    let proxy = bucket.proxy(Plan::default());
    let host = start_with(CSV, &bucket, &proxy, None);
    let mut reader = connect(&host, None);
    read(&mut reader, Some(60));
    let state = reader.state().expect("it was given all batches");
    assert!(state.place.position.header > 0, "{state:?}");
    host.process.signal(Signal::SIGKILL);
    host.wait();

    let (path, has_changed) = (bucket.server.file(BUCKET, "data/0"), AtomicBool::new(false));
    let place = format!("bytes={}-", state.place.position.offset);
    let proxy = bucket.proxy(Plan::default().hook(move |request: &Request| {
        // The header was read before.
        let is_place = request.range.as_ref().is_some_and(|range| range.starts_with(&place));
        if is_place && !has_changed.swap(true, Ordering::SeqCst) {
            let next = path.with_extension("next");
            fs::write(&next, table(LINES)).expect("it can be written");
            fs::rename(&next, &path).expect("it can be renamed");
        }
        None
    }));
    let host = start_with(CSV, &bucket, &proxy, Some(&state));
    let error = match connect(&host, None).next() {
        Ok(_) => panic!("a batch of an object with another header"),
        Err(error) => error.to_string(),
    };
    // Its list is kept, so what is read after the header must be of the same ETag.
    assert!(error.contains("changed while it was read: its ETag is another one now"), "{error}");
    host.wait().with_code(65).says(&["s3://bucket/data/0", "write new data under new keys"]);
}
