//! A file that changes while it is read ends the run with an error that says so.
//!
//! The consumer holds the first batch, so the host has opened the file, and has to wait before its
//! end: the file has more bytes than a ring and workers hold. Then the file changes.

use std::fs::{self, File, FileTimes};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use flate2::Compression;
use flate2::write::GzEncoder;
use pipemill_ring::protocol::ErrorKind;
use pipemill_ring::reader::{Event, Reader};
use pipemill_tests::host::{self, Host};
use pipemill_tests::process::Process;
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{consumer, pipemill};

/// Bytes of a line.
const LINE: usize = 1 << 10;
/// Lines that are more than a ring holds, and more than two workers hold.
const LINES: [usize; 2] = [4 << 10, 40 << 10];

/// Lines of random digits, which compress to half of their bytes.
fn lines(count: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(count as u64);
    let mut bytes = Vec::with_capacity(count * LINE);
    for number in 0..count {
        let start = bytes.len();
        write!(bytes, "{number:08}").expect("memory");
        bytes.resize_with(start + LINE - 1, || random.digit(16) as u8);
        bytes.push(b'\n');
    }
    bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

/// What is done to the file while it is read.
type Change = fn(&Path);

fn truncate(path: &Path) {
    let file = open(path);
    file.set_len(file.metadata().expect("it is there").len() - 100).expect("it can be cut");
}

/// Writes other bytes of the same size over the second half.
fn write_over(path: &Path) {
    let file = open(path);
    let half = file.metadata().expect("it is there").len() / 2;
    file.write_all_at(&vec![b'x'; half as usize], half).expect("it can be written");
}

/// The same, and sets the modification time back.
fn write_over_in_secret(path: &Path) {
    let time = fs::metadata(path).and_then(|file| file.modified()).expect("it is there");
    write_over(path);
    open(path).set_times(FileTimes::new().set_modified(time)).expect("it is ours");
}

fn grow(path: &Path) {
    let end = fs::metadata(path).expect("it is there").len();
    open(path).write_all_at(b"one more\n", end).expect("it can be written");
}

/// Another file of the same size takes its name.
fn replace(path: &Path) {
    let size = fs::metadata(path).expect("it is there").len();
    let other = path.with_extension("other");
    fs::write(&other, vec![b'x'; size as usize]).expect("it can be written");
    fs::rename(other, path).expect("it can be renamed");
}

fn remove(path: &Path) {
    fs::remove_file(path).expect("it is ours");
}

fn open(path: &Path) -> File {
    File::options().write(true).open(path).expect("it can be opened")
}

/// Takes the first batch of the channel, and lets the file change before the next.
fn first_batch(host: &Host, records: &mut Vec<Vec<u8>>) -> Reader {
    let mut reader = host.connect("train");
    match reader.next() {
        Ok(Event::Batch(batch)) => records.extend(consumer::records(&batch)),
        other => panic!("expected a batch, found {other:?}"),
    }
    reader
}

/// The run ends with the error that the file has changed. Returns the records that came before.
fn fails(host: Host, path: &Path, changes: impl FnOnce(), says: &str) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    let mut reader = first_batch(&host, &mut records);
    changes();
    let read = consumer::read(&mut reader);
    drop(reader);
    let report = read.report();
    assert_eq!(report.kind, ErrorKind::Source, "{report:?}");
    let path = path.to_str().expect("UTF-8");
    let words = ["channel `train`", "epoch 0", path, "byte ", says, "don't change files"];
    for word in words {
        assert!(report.message.contains(word), "expected {word:?} in {}", report.message);
    }
    assert!(read.epochs.is_empty(), "an epoch that can't be told has ended: {:?}", read.epochs);
    records.extend(read.records);
    host.wait().with_code(65).says(&[path, says]);
    records
}

/// Lets a file change in each way of reading. `is_torn`: nobody can say of which state the records
/// are that come before the error.
fn is_noticed(change: Change, says: &str, is_torn: bool) {
    for workers in [1, 2] {
        let plain = lines(LINES[workers - 1]);
        let whole: Vec<_> =
            plain.strip_suffix(b"\n").expect("lines").split(|b| *b == b'\n').collect();
        for (name, bytes) in [("data.txt", &plain), ("data.txt.gz", &gzip(&plain))] {
            for batch in ["", "batch = 100\ntail = 'keep'\n"] {
                let place = TestDir::new();
                let path = place.write(name, bytes);
                let config = format!(
                    "[[channel]]\nname = 'train'\ndecoder = 'lines'\nsource = {{ file = {path:?} }}\n\
                     workers = {workers}\n{batch}[channel.ring]\nslots = 4\nslot_size = '256KiB'\n"
                );
                let host = Host::start(&pipemill!(), &place, &config);
                let records = fails(host, &path, || change(&path), says);
                assert!(is_torn || whole.starts_with(&slices(&records)), "{name}, {workers}");
            }
        }
    }
}

fn slices(records: &[Vec<u8>]) -> Vec<&[u8]> {
    records.iter().map(Vec::as_slice).collect()
}

#[test]
fn a_file_that_is_cut_while_it_is_read() {
    is_noticed(truncate, "changed since it was opened: it had", false);
}

#[test]
fn a_file_that_is_written_over_while_it_is_read() {
    is_noticed(write_over, "changed since it was opened: its modification time was", true);
}

#[test]
fn a_file_whose_time_is_set_back_while_it_is_read() {
    // The host may look at it before its time is set back.
    is_noticed(write_over_in_secret, "changed since it was opened: it", true);
}

#[test]
fn a_file_that_grows_while_it_is_read() {
    is_noticed(grow, "changed since it was opened: it had", false);
}

#[test]
fn a_file_that_is_replaced_while_it_is_read() {
    is_noticed(replace, "another file has its name now", false);
}

#[test]
fn a_file_that_is_removed_while_it_is_read() {
    is_noticed(remove, "its metadata can't be read any more", false);
}

/// Its name is that of no file, so it is known by its descriptor.
#[test]
fn standard_input_that_is_a_file_which_changes() {
    for (change, says) in
        [(truncate as Change, "it had"), (grow, "it had"), (write_over, "time was")]
    {
        let place = TestDir::new();
        let path = place.write("data.txt", lines(LINES[0]));
        let config = "[[channel]]\nname = 'train'\ndecoder = 'lines'\nsource = { stdin = true }\n\
                      [channel.ring]\nslots = 4\nslot_size = '256KiB'\n";
        let mut command = host::command(&pipemill!(), &place, config);
        command.stdin(Stdio::from(File::open(&path).expect("it is there")));
        let process = Process::start(&mut command);
        let host = Host { process, socket: place.path("run/host.sock") };
        fails(host, &PathBuf::from("-"), || change(&path), says);
    }
}

/// All of a list is of the state in which it was listed, as in S3.
#[test]
fn a_file_that_changes_after_it_was_listed() {
    let changes: [(Change, &str); 3] = [
        (grow, "changed since it was listed: it had"),
        (write_over, "changed since it was listed: its modification time was"),
        (replace, "changed since it was listed: its modification time was"),
    ];
    for workers in [1, 2] {
        for (change, says) in changes {
            let place = TestDir::new();
            place.write("in/a", lines(LINES[workers - 1]));
            let later = place.write("in/b", "later\n");
            let folder = place.path("in");
            let config = format!(
                "[[channel]]\nname = 'train'\ndecoder = 'lines'\nsource = {{ folder = {folder:?} }}\n\
                 workers = {workers}\n[channel.ring]\nslots = 4\nslot_size = '256KiB'\n"
            );
            let host = Host::start(&pipemill!(), &place, &config);
            let mut records = Vec::new();
            let mut reader = first_batch(&host, &mut records);
            // A planner of workers may have opened it already.
            change(&later);
            let read = consumer::read(&mut reader);
            drop(reader);
            let report = read.report();
            let opened = says.replace("listed", "opened");
            let told = [says, &opened, "another file has its name now"];
            assert!(told.iter().any(|says| report.message.contains(says)), "{}", report.message);
            assert!(report.message.contains(later.to_str().expect("UTF-8")), "{}", report.message);
            host.wait().with_code(65);
        }
    }
}
