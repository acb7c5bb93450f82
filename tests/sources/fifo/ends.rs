//! Epochs that a consumer ends before they are over.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::thread;

use pipemill_ring::protocol::EpochEnd;
use pipemill_ring::reader::{Event, Reader};
use pipemill_tests::host::Host;
use pipemill_tests::pipemill;
use pipemill_tests::test_dir::TestDir;

use super::channel;

/// Reads a batch of epoch 0, asks for its end, and reads on to the end.
fn leave_the_first(reader: &mut Reader) -> (Vec<u32>, Vec<EpochEnd>) {
    let (mut batches, mut ends) = (Vec::new(), Vec::new());
    loop {
        match reader.next().expect("the host is well") {
            Event::Batch(batch) => {
                if batches.is_empty() {
                    reader.end_epoch(0);
                }
                batches.push(batch.epoch());
            }
            Event::EpochEnd(end) => ends.push(end),
            Event::StreamEnd => return (batches, ends),
        }
    }
}

#[test]
fn an_early_end_of_an_epoch_is_told_to_the_writer_and_the_next_comes() {
    let place = TestDir::new();
    let folder = place.folder().to_owned();
    place.fifo("train_0");
    place.fifo("train_1");
    let writer = thread::spawn(move || {
        let open =
            |name: &str| File::options().write(true).open(folder.join(name)).expect("a FIFO");
        let mut pipe = open("train_0");
        // Without end, as far as the writer is concerned.
        let error = loop {
            if let Err(error) = pipe.write_all(&[b'a', b'\n'].repeat(5_000)) {
                break error;
            }
        };
        drop(pipe);
        open("train_1").write_all(b"a new one\n").expect("it is read");
        error.kind()
    });
    let host =
        Host::start(&pipemill!(), &place, &channel(&place, "train", "lines", ", epochs = 2"));
    let (batches, ends) = leave_the_first(&mut host.connect("train"));
    assert_eq!(batches.last(), Some(&1));
    assert_eq!(
        ends.iter().map(|end| (end.epoch, end.early)).collect::<Vec<_>>(),
        [(0, true), (1, false)]
    );
    assert_eq!(ends[1].records, 1);
    assert_eq!(writer.join().expect("writing does not panic"), ErrorKind::BrokenPipe);
    host.wait().with_code(0);
}

#[test]
fn an_early_end_of_an_epoch_of_files_goes_on_with_the_next() {
    let place = TestDir::new();
    for name in ["a", "b"] {
        place.write(&format!("data/{name}.txt"), b"line\n".repeat(200_000));
    }
    let config = channel(&place, "train", "lines", "");
    let fifo = format!("fifo = {:?}", place.folder());
    let config = config.replace(&fifo, &format!("folder = {:?}, epochs = 2", place.path("data")));
    let host = Host::start(&pipemill!(), &place, &config);
    let (_, ends) = leave_the_first(&mut host.connect("train"));
    assert_eq!(
        ends.iter().map(|end| (end.epoch, end.early)).collect::<Vec<_>>(),
        [(0, true), (1, false)]
    );
    assert!(ends[0].records < 400_000, "{ends:?}");
    assert_eq!(ends[1].records, 400_000);
    host.wait().with_code(0);
}
