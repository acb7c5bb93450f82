//! A host that is killed: its consumers see it, and nothing is left but a socket file, which the
//! next host replaces.

use std::collections::BTreeSet;

use nix::sys::signal::Signal;
use pipemill_ring::reader::{Event, ReaderError};
use pipemill_tests::host::Host;
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{PATIENCE, consumer, pipemill};

use super::{lines, numbered};

fn shared_memory() -> BTreeSet<String> {
    let entries = std::fs::read_dir("/dev/shm").expect("Linux has it");
    entries
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .collect()
}

#[test]
fn consumers_get_an_error_when_the_host_is_killed_and_nothing_is_left() {
    let place = TestDir::new();
    let before = shared_memory();
    let records = numbered(40_000, 100);
    let config = lines(&place, "train", &records, "");
    let host = Host::start(&pipemill!(), &place, &config);
    // It holds all its credits, so that it waits only for the host.
    let mut waiting = host.connect("train");
    let mut held = Vec::new();
    while held.len() < waiting.welcome().credits as usize {
        match waiting.next().expect("the host is well") {
            Event::Batch(batch) => held.push(batch),
            other => panic!("expected a batch, found {other:?}"),
        }
    }
    let (learned, error) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let error = waiting.next().expect_err("the host was killed");
        learned.send(error).expect("the test waits for it");
    });
    host.process.signal(Signal::SIGKILL);
    let error = error.recv_timeout(PATIENCE).expect("the consumer is told");
    thread.join().expect("reading does not panic");
    assert!(matches!(error, ReaderError::HostDied { .. }), "{error}");
    assert!(
        error.to_string().contains("train") && error.to_string().contains("host died"),
        "{error}"
    );
    // Batches that were lent before remain valid.
    let first = consumer::records(&held[0]);
    assert_eq!(first, records[..first.len()]);
    drop(held);

    assert_eq!(host.wait().signal, Some(Signal::SIGKILL as i32));
    assert_eq!(place.names("run"), ["host.sock"]);
    let left: Vec<_> = shared_memory().difference(&before).cloned().collect();
    assert!(left.iter().all(|name| !name.contains("pipemill")), "left in /dev/shm: {left:?}");

    // The end of the socket is the last output: nothing is left at all.
    let next = Host::start(&pipemill!(), &place, &config);
    assert_eq!(next.read("train").well().len(), 3 * records.len());
    next.wait().with_code(0);
    assert!(place.names("run").is_empty(), "{:?}", place.names("run"));
}
