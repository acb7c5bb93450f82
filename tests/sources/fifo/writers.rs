//! What a writer may do to its pipe.

use std::fs::File;
use std::io::Write;
use std::thread;
use std::time::Duration;

use pipemill_ring::protocol::ErrorKind;
use pipemill_tests::host::Host;
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{consumer, inputs, pipemill};

use super::{channel, epoch, payloads};

#[test]
fn a_writer_of_single_bytes_makes_no_difference() {
    let place = TestDir::new();
    let payloads: Vec<_> = payloads().into_iter().filter(|payload| payload.len() < 100).collect();
    let bytes = inputs::tfrecord(&payloads);
    let fifo = place.fifo("slow_0");
    let writer = thread::spawn(move || {
        let mut pipe = File::options().write(true).open(fifo).expect("a FIFO");
        for (at, byte) in bytes.iter().enumerate() {
            if at % 211 == 0 {
                // Longer than the host waits before it shows what it has.
                thread::sleep(Duration::from_millis(25));
            }
            pipe.write_all(&[*byte]).expect("it is read");
        }
    });
    let host =
        Host::start(&pipemill!(), &place, &channel(&place, "slow", "tfrecord", ", epochs = 1"));
    assert_eq!(host.read("slow").well(), payloads);
    writer.join().expect("writing does not panic");
    host.wait().with_code(0);
}

#[test]
fn what_a_silent_writer_wrote_is_handed_over() {
    let place = TestDir::new();
    let fifo = place.fifo("live_0");
    let host = Host::start(&pipemill!(), &place, &channel(&place, "live", "lines", ", epochs = 1"));
    let mut reader = host.connect("live");
    let mut pipe = File::options().write(true).open(fifo).expect("a FIFO");
    for line in ["one", "two", "three"] {
        // The pipe stays open and silent: the record must come all the same.
        writeln!(pipe, "{line}").expect("it is read");
        match reader.next().expect("the host is well") {
            pipemill_ring::reader::Event::Batch(batch) => {
                assert_eq!(consumer::records(&batch), [line.as_bytes()]);
            }
            other => panic!("expected a batch, found {other:?}"),
        }
    }
    drop(pipe);
    assert!(consumer::read(&mut reader).well().is_empty());
    host.wait().with_code(0);
}

#[test]
fn a_writer_that_dies_inside_a_record_is_an_error_with_its_place() {
    let place = TestDir::new();
    let payloads = payloads();
    let whole = inputs::tfrecord(&payloads[..40]);
    let next = inputs::tfrecord(&payloads[40..41]);
    let bytes = [&whole[..], &next[..next.len() - 1]].concat();
    let fifo = place.path("train_0");
    let writer = thread::spawn(move || epoch(&fifo, &bytes));
    let host =
        Host::start(&pipemill!(), &place, &channel(&place, "train", "tfrecord", ", epochs = 3"));
    let read = host.read("train");
    let report = read.report();
    assert_eq!(report.kind, ErrorKind::Decode);
    assert_eq!((report.offset, report.record), (Some(whole.len() as u64), Some(40)));
    assert_eq!((report.epoch, report.decoder.as_deref()), (Some(0), Some("tfrecord")));
    assert!(report.object.as_ref().is_some_and(|object| object.ends_with("/train_0")));
    let left = next.len() - 1;
    let says = format!(
        "the input ends inside a record, {left} bytes after its start; it wants at least {}",
        left + 1
    );
    assert!(report.message.contains(&says), "{}", report.message);
    assert_eq!(read.records, payloads[..40], "what came before it is good");
    writer.join().expect("writing does not panic");
    host.wait().with_code(65).says(&[&says, "cut short"]);
}

#[test]
fn an_empty_pipe_is_an_empty_epoch() {
    let place = TestDir::new();
    let (folder, payloads) = (place.folder().to_owned(), payloads());
    let bytes = inputs::tfrecord(&payloads);
    let writer = thread::spawn(move || {
        for (number, bytes) in [&b""[..], &bytes, b"", b""].into_iter().enumerate() {
            epoch(&folder.join(format!("train_{number}")), bytes);
        }
    });
    let host =
        Host::start(&pipemill!(), &place, &channel(&place, "train", "tfrecord", ", epochs = 4"));
    let read = host.read("train");
    let counts: Vec<_> =
        read.epochs.iter().map(|end| (end.epoch, end.records, end.early)).collect();
    assert_eq!(counts, [(0, 0, false), (1, 62, false), (2, 0, false), (3, 0, false)]);
    assert_eq!(read.well(), payloads);
    writer.join().expect("writing does not panic");
    host.wait().with_code(0);
}

#[test]
fn a_compressed_pipe_is_inflated() {
    let place = TestDir::new();
    let payloads = payloads();
    let folder = place.folder().to_owned();
    let gzip = inputs::gzip(&inputs::tfrecord(&payloads));
    let writer = thread::spawn(move || {
        (0..2).for_each(|n| epoch(&folder.join(format!("train_{n}")), &gzip))
    });
    let config = channel(&place, "train", "tfrecord", ", epochs = 2, compression = 'gzip'");
    let host = Host::start(&pipemill!(), &place, &config);
    assert!(host.read("train").well() == [payloads.clone(), payloads].concat());
    writer.join().expect("writing does not panic");
    host.wait().with_code(0);
}
