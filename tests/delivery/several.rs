//! Several consumers of a channel, and several channels of a host.

use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use pipemill_ring::protocol::{Hello, Rank};
use pipemill_ring::reader::Event;
use pipemill_tests::host::Host;
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{consumer, pipemill, until};

use super::{lines, numbered};

#[test]
fn two_consumers_share_a_channel() {
    let place = TestDir::new();
    let records = numbered(20_000, 200);
    let host = Host::start(&pipemill!(), &place, &lines(&place, "train", &records, ""));
    // Both take a batch before either continues.
    let mut readers = [host.connect("train"), host.connect("train")];
    let first = readers.each_mut().map(|reader| match reader.next().expect("the host is well") {
        Event::Batch(batch) => consumer::records(&batch),
        other => panic!("expected a batch, found {other:?}"),
    });
    let reads = readers.map(|mut reader| thread::spawn(move || consumer::read(&mut reader)));
    let mut all = first.concat();
    for read in reads {
        let read = read.join().expect("reading does not panic");
        assert_eq!(read.epochs.iter().map(|end| end.epoch).collect::<Vec<_>>(), [0, 1, 2]);
        all.extend(read.well());
    }
    let mut expected = [records.clone(), records.clone(), records].concat();
    all.sort();
    expected.sort();
    assert!(all == expected, "together they see each record once an epoch");
    host.wait().with_code(0);
}

#[test]
fn each_consumer_gets_all_of_a_broadcast() {
    let place = TestDir::new();
    let records = numbered(10_000, 100);
    let config = lines(&place, "all", &records, "mode = 'broadcast'\nconsumers = 3");
    let host = Host::start(&pipemill!(), &place, &config);
    let readers: Vec<_> = (0..3).map(|_| host.connect("all")).collect();
    let read = |mut reader| thread::spawn(move || consumer::read(&mut reader));
    let reads: Vec<_> = readers.into_iter().map(read).collect();
    let expected = [records.clone(), records.clone(), records].concat();
    for read in reads {
        assert!(read.join().expect("reading does not panic").well() == expected);
    }
    host.wait().with_code(0);
}

#[test]
fn a_consumer_that_never_reads_stops_no_other_channel() {
    let place = TestDir::new();
    let records = numbered(30_000, 200);
    let config =
        [lines(&place, "still", &records, ""), lines(&place, "moving", &records, "")].concat();
    let host = Host::start(&pipemill!(), &place, &config);
    let mut still = host.connect("still");
    let held = still.next().expect("the host is well");
    let moved = host.read("moving").well();
    assert!(moved == [records.clone(), records.clone(), records.clone()].concat());
    // It resumes where it was.
    drop(held);
    let rest = consumer::read(&mut still).well();
    assert_eq!(rest.last(), records.last());
    host.wait().with_code(0);
}

#[test]
fn python_reads_beside_rust() {
    let Some(python) = pipemill_tests::python("python_reads_beside_rust") else { return };
    let place = TestDir::new();
    let records = numbered(5_000, 50);
    let config = lines(&place, "train", &records, "mode = 'broadcast'\nconsumers = 2");
    let mut command = pipemill_tests::host::command(&pipemill!(), &place, &config);
    let script = "\
import pipemill
with pipemill.connect('train') as stream:
    for epoch in stream.epochs():
        seen = [record.encode() for batch in epoch for record in batch]
        assert all(int(one[:8]) == i for i, one in enumerate(seen))
        print(epoch.number, len(seen), sum(map(len, seen)), flush=True)
";
    command.arg("--").arg(python).args(["-c", script]);
    let process = pipemill_tests::process::Process::start(&mut command);
    let mut reader = consumer::connect(&place.path("run/host.sock"), "train", None);
    assert_eq!(consumer::read(&mut reader).well().len(), 3 * records.len());
    let ended = process.wait().with_code(0);
    let bytes: usize = records.iter().map(Vec::len).sum();
    let line = |epoch| format!("{epoch} {} {bytes}\n", records.len());
    assert_eq!(ended.text(), [line(0), line(1), line(2)].concat());
}

/// A rank that receives no batch asks which rank has left.
#[test]
fn a_rank_is_told_which_other_one_has_left() {
    let place = TestDir::new();
    let records = numbered(3_000, 100);
    let config = lines(&place, "train", &records, "batch = 10\ntail = 'drop'");
    let host = Host::start(&pipemill!(), &place, &config);
    let rank = |rank| {
        let rank = Some(Rank { number: rank, world: 2 });
        let hello = Hello { rank, credits: Some(1), ..Hello::new("train", "test") };
        consumer::connect_as(&host.socket, &hello).expect("it is a rank of two")
    };
    let (mut stays, leaves) = (rank(0), rank(1));
    drop(leaves);
    let mut told = None;
    until("the host waits for rank 1", || {
        while stays.wait(Duration::ZERO).expect("the host is well") {
            stays.next().expect("the host is well");
        }
        told = stays.waits_for();
        told.as_ref().is_some_and(|what| what.contains("rank 1"))
    });
    let told = told.expect("it was waited for");
    assert!(told.contains("`train`") && told.contains("has left"), "{told}");
    host.process.signal(Signal::SIGTERM);
    host.wait().with_code(143);
}
