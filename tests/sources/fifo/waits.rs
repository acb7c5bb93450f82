//! Waiting: for a pipe, for its writer, for its bytes.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::thread;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use pipemill_ring::protocol::ErrorKind;
use pipemill_tests::host::Host;
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{consumer, pipemill, until};

use super::{channel, epoch};

#[test]
fn the_reader_may_be_there_before_the_writer() {
    let place = TestDir::new();
    let fifo = place.fifo("train_0");
    let host =
        Host::start(&pipemill!(), &place, &channel(&place, "train", "lines", ", epochs = 1"));
    let mut reader = host.connect("train");
    // Opened for writing without waiting, a FIFO that nobody reads is an error.
    let mut options = File::options();
    options.write(true).custom_flags(OFlag::O_NONBLOCK.bits());
    let mut pipe = None;
    until("the host opens the FIFO", || {
        match options.open(&fifo) {
            Ok(opened) => pipe = Some(opened),
            Err(error) => assert_eq!(error.raw_os_error(), Some(Errno::ENXIO as i32), "{error}"),
        }
        pipe.is_some()
    });
    let mut pipe = pipe.expect("it is open");
    pipe.write_all(b"late but there").expect("it is read");
    drop(pipe);
    assert_eq!(consumer::read(&mut reader).well(), [b"late but there"]);
    host.wait().with_code(0);
}

#[test]
fn each_epochs_pipe_appears_when_the_one_before_is_over() {
    let place = TestDir::new();
    let folder = place.folder().to_owned();
    let writer = thread::spawn(move || {
        for number in 5..10 {
            epoch(
                &folder.join(format!("train_{number}")),
                format!("{number} a\n{number} b\n").as_bytes(),
            );
        }
    });
    let config = channel(&place, "train", "lines", ", epochs = 5, first_epoch = 5");
    let host = Host::start(&pipemill!(), &place, &config);
    let read = host.read("train");
    let epochs: Vec<_> = read.epochs.iter().map(|end| (end.epoch, end.records)).collect();
    assert_eq!(epochs, [(5, 2), (6, 2), (7, 2), (8, 2), (9, 2)]);
    let expected: Vec<_> = (5..10).flat_map(|n| [format!("{n} a"), format!("{n} b")]).collect();
    assert_eq!(read.well(), expected.iter().map(String::as_bytes).collect::<Vec<_>>());
    writer.join().expect("writing does not panic");
    host.wait().with_code(0);
}

#[test]
fn a_pipe_that_does_not_appear_is_named() {
    let place = TestDir::new();
    place.fifo("test_0");
    let config = channel(&place, "train", "lines", ", open_timeout = '300ms'");
    // Nobody connects to be told; the host's word is enough.
    let config = format!("fail_grace = '0ms'\n{config}");
    let ended = Host::start(&pipemill!(), &place, &config).wait().with_code(66);
    let object = place.text("train_0");
    ended.says(&[
        &object,
        "did not appear within 300ms",
        "test_0",
        "Pipe mode",
        "raise `open_timeout`",
    ]);
}

#[test]
fn a_missing_folder_is_named() {
    let place = TestDir::new();
    let config = channel(&place, "train", "lines", ", open_timeout = '100ms'");
    let config = config.replace(place.folder().to_str().expect("UTF-8"), "/nowhere/at/all");
    let config = format!("fail_grace = '0ms'\n{config}");
    Host::start(&pipemill!(), &place, &config).wait().with_code(66).says(&[
        "/nowhere/at/all/train_0",
        "did not appear",
        "its folder can't be listed",
    ]);
}

#[test]
fn a_silent_writer_is_an_error_after_its_timeout() {
    let place = TestDir::new();
    // Written before it is read, so that the host has all of it before it can be late; and kept open.
    let mut pipe =
        File::options().read(true).write(true).open(place.fifo("train_0")).expect("a FIFO");
    pipe.write_all(b"something\nand part of").expect("it has room");
    let host = Host::start(
        &pipemill!(),
        &place,
        &channel(&place, "train", "lines", ", idle_timeout = '200ms'"),
    );
    let mut reader = host.connect("train");
    let read = consumer::read(&mut reader);
    let report = read.report();
    assert_eq!(report.kind, ErrorKind::Source);
    assert!(report.message.contains("no byte came for 200ms"), "{}", report.message);
    assert!(report.message.contains("raise `idle_timeout`"), "{}", report.message);
    assert_eq!(read.records, [b"something"]);
    drop(reader);
    host.wait().with_code(65);
}
