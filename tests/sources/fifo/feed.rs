//! `pipemill feed` at the other end of the pipes.

use std::os::unix::fs::MetadataExt;
use std::process::Command;

use nix::sys::signal::Signal;
use pipemill_ring::reader::Event;
use pipemill_tests::host::Host;
use pipemill_tests::process::{Process, finish};
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{consumer, inputs, pipemill, until};

use super::{channel, payloads};

fn feed(place: &TestDir, name: &str, from: &[&str], epochs: u32) -> Command {
    let mut command = Command::new(pipemill!());
    command.arg("feed").arg("--from").args(from.iter().map(|name| place.path(name)));
    command.arg("--to").arg(place.folder()).args([
        "--channel",
        name,
        "--epochs",
        &epochs.to_string(),
    ]);
    command
}

#[test]
fn feed_and_run_stream_several_channels_and_epochs() {
    let place = TestDir::new();
    let payloads = payloads();
    place.write("records.tfrecord", inputs::tfrecord(&payloads));
    place.write("more/b.rec", inputs::recordio(&payloads[20..]));
    place.write("more/a.rec", inputs::recordio(&payloads[..20]));
    place.write("text.csv", "1,a\n2,b\n");
    let mut feeders = vec![
        Process::start(&mut feed(&place, "tf", &["records.tfrecord"], 2)),
        Process::start(&mut feed(&place, "rec", &["more"], 2)),
        Process::start(&mut feed(&place, "table", &["text.csv", "text.csv"], 2)),
    ];
    let config = [
        channel(&place, "tf", "tfrecord", ", epochs = 2"),
        channel(&place, "rec", "recordio", ", epochs = 2"),
        channel(&place, "table", "csv", ", epochs = 2"),
    ];
    let host = Host::start(&pipemill!(), &place, &config.concat());
    let readers = ["tf", "rec", "table"].map(|name| host.connect(name));
    let twice = [payloads.clone(), payloads].concat();
    let expected = [
        twice.clone(),
        twice,
        [b"1", b"2", b"1", b"2"].repeat(2).iter().map(|n| n.to_vec()).collect(),
    ];
    for (mut reader, expected) in readers.into_iter().zip(expected) {
        let channel = reader.welcome().channel.clone();
        assert!(consumer::read(&mut reader).well() == expected, "channel {channel}");
    }
    host.wait().with_code(0);
    feeders.drain(..).for_each(|feeder| drop(feeder.wait().with_code(0)));
    let left: Vec<_> = place.names("").into_iter().filter(|name| name.contains('_')).collect();
    assert!(left.is_empty(), "FIFOs are left: {left:?}");
}

#[test]
fn feed_goes_on_when_an_epoch_is_left_early() {
    let place = TestDir::new();
    place.write("much.txt", b"line\n".repeat(2_000_000));
    let feeder = Process::start(&mut feed(&place, "train", &["much.txt"], 2));
    let host =
        Host::start(&pipemill!(), &place, &channel(&place, "train", "lines", ", epochs = 2"));
    let mut reader = host.connect("train");
    let Event::Batch(batch) = reader.next().expect("the host is well") else {
        panic!("expected a batch")
    };
    drop(batch);
    reader.end_epoch(0);
    let read = consumer::read(&mut reader);
    let ends: Vec<_> = read.epochs.iter().map(|end| (end.epoch, end.early)).collect();
    assert_eq!(ends, [(0, true), (1, false)]);
    assert_eq!(read.epochs[1].records, 2_000_000);
    host.wait().with_code(0);
    feeder.wait().with_code(0).says(&["the reader closed early"]);
}

#[test]
fn a_stopped_feed_leaves_no_pipe_behind() {
    let place = TestDir::new();
    place.write("text", "line\n");
    let feeder = Process::start(&mut feed(&place, "train", &["text"], 9));
    // One epoch, so that it waits for the reader of the next.
    let host =
        Host::start(&pipemill!(), &place, &channel(&place, "train", "lines", ", epochs = 1"));
    assert_eq!(host.read("train").well(), [b"line"]);
    host.wait().with_code(0);
    until("the next pipe is there", || place.path("train_1").exists());
    feeder.signal(Signal::SIGTERM);
    feeder.wait().with_code(128 + Signal::SIGTERM as i32);
    assert_eq!(place.names(""), ["pipemill.toml", "run", "text"]);
}

#[test]
fn feed_of_a_missing_file_is_an_error() {
    let place = TestDir::new();
    finish(&mut feed(&place, "train", &["nothing.txt"], 1))
        .with_code(66)
        .says(&["nothing.txt", "check the path"]);
    assert!(place.names("").is_empty());
}

/// Who gives the wrong folder loses no data.
#[test]
fn feed_removes_nothing_but_its_pipes() {
    let place = TestDir::new();
    place.write("in/text", "line\n");
    place.write("train_0", "data of somebody");
    finish(&mut feed(&place, "train", &["in/text"], 1)).with_code(71).says(&[
        "train_0",
        "no FIFO",
        "not removed",
    ]);
    assert_eq!(std::fs::read(place.path("train_0")).expect("it is there"), b"data of somebody");
    // A link to a FIFO is none of its own either.
    place.fifo("other");
    std::os::unix::fs::symlink("other", place.path("linked_0")).expect("a link can be made");
    finish(&mut feed(&place, "linked", &["in/text"], 1)).with_code(71).says(&["no FIFO"]);
    assert_eq!(place.names(""), ["in", "linked_0", "other", "train_0"]);
    // A FIFO that an earlier run has left is.
    let left = place.fifo("left_0");
    // The new one may have the number of the old one.
    let made = || std::fs::metadata(&left).map(|m| (m.ino(), m.ctime(), m.ctime_nsec())).ok();
    let before = made();
    let feeder = Process::start(&mut feed(&place, "left", &["in/text"], 1));
    until("it has made its own", || made().is_some_and(|now| Some(now) != before));
    assert_eq!(std::fs::read(place.path("left_0")).expect("it is fed"), b"line\n");
    feeder.wait().with_code(0);
}
