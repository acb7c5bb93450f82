//! The memory that a channel takes stays below the account that `config check` prints, whatever its
//! data, its decoder and its consumers ask for.

use std::fs::File;
use std::io::Write;

use pipemill_ring::protocol::{BatchAcross, BatchSize, ErrorKind, Hello, Tail};
use pipemill_ring::reader::{Event, Reader, ReaderError};
use pipemill_tests::host::{self, Host};
use pipemill_tests::process::Process;
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{BAD_PLUGIN, consumer, inputs, pipemill};

use super::taken::Taken;

/// Reads a channel to its end or error, and checks the memory that the host has taken until then.
/// Returns the number of its records, or the error.
fn read_within_account(
    place: &TestDir,
    host: &Host,
    reader: &mut Reader,
) -> Result<usize, ReaderError> {
    let (mut records, mut taken) = (0, Taken::by(host, place));
    let read = loop {
        let event = reader.next();
        taken.measure();
        match event {
            Ok(Event::Batch(batch)) => records += batch.records(),
            Ok(Event::EpochEnd(_)) => {}
            Ok(Event::StreamEnd) => break Ok(records),
            Err(error) => break Err(error),
        }
    };
    taken.check();
    read
}

/// The same of a host with this configuration, from its start to its end with this exit code.
fn run_within_account(place: &TestDir, config: &str, code: i32) -> Result<usize, ReaderError> {
    // Without a command, the host might end before its memory is measured.
    let measured = place.fifo("measured");
    let mut command = host::command(&pipemill!(), place, config);
    command.args(["--", "sh", "-c", "read line < \"$0\""]).arg(&measured);
    let host = Host { process: Process::start(&mut command), socket: place.path("run/host.sock") };
    let mut measured = File::options().read(true).write(true).open(measured).expect("a FIFO");
    let mut reader = host.connect("train");
    let read = read_within_account(place, &host, &mut reader);
    drop(reader);
    writeln!(measured).expect("it is open for reading here");
    host.wait().with_code(code);
    read
}

/// A channel with a small account.
fn small(decoder: &str, source: &str, more: &str) -> String {
    format!(
        "[[channel]]\nname = 'train'\ndecoder = '{decoder}'\nsource = {{ {source} }}\n{more}\n\
         [channel.ring]\nslots = 4\nslot_size = '1MiB'\ncredits = 2\n\
         [channel.limits]\nmemory = '34MiB'\noutput = '9MiB'\nbatches = '100MiB'\n"
    )
}

/// A channel of long lines that compress well, with limits that make its account small.
fn lines(place: &TestDir, count: usize, bytes: usize, more: &str) -> String {
    let mut line = vec![b'x'; bytes];
    line.push(b'\n');
    let file = place.write("in.gz", inputs::gzip(&line.repeat(count)));
    small("lines", &format!("file = {file:?}"), &format!("max_record = '9MiB'\n{more}"))
}

fn check_over_budget(read: &Result<usize, ReaderError>) {
    let Err(ReaderError::Failed(report)) = read else { panic!("{read:?}") };
    assert_eq!(report.kind, ErrorKind::Host);
    for part in ["may have 104857600 (`limits.batches`)", "raise `limits.batches`", "`batch`"] {
        assert!(report.message.contains(part), "{}", report.message);
    }
}

/// A batch, or a window of a number of records, that is larger than the channel may have.
#[test]
fn batches_beyond_the_account_are_an_error() {
    for more in [
        "batch = 30",
        "batch = 1\nshuffle = { seed = 1, window = 1000 }",
        "batch = 30\nshuffle = { seed = 1, window = '1MiB' }",
    ] {
        let place = TestDir::new();
        let config = lines(&place, 40, 8 << 20, more);
        check_over_budget(&run_within_account(&place, &config, 65));
    }
}

/// Content that fits takes no more than it may, although there are more buffers than would fit
/// together.
#[test]
fn batches_wait_for_memory() {
    let place = TestDir::new();
    let config = lines(&place, 40, 8 << 20, "batch = 4");
    assert_eq!(run_within_account(&place, &config, 0).expect("it fits"), 40);
}

/// A consumer's request is its own fault.
#[test]
fn a_batch_that_a_consumer_asks_for() {
    let place = TestDir::new();
    let host = Host::start(&pipemill!(), &place, &lines(&place, 40, 8 << 20, ""));
    let batch = BatchSize { records: 30, tail: Tail::Keep, across: BatchAcross::Epoch };
    let hello = Hello { batch: Some(batch), ..Hello::new("train", "test") };
    let mut reader = consumer::connect_as(&host.socket, &hello).expect("its wish is no wrong one");
    check_over_budget(&read_within_account(&place, &host, &mut reader));
    drop(reader);
    // Without that request, the channel has all of its records.
    assert_eq!(host.read("train").well().len(), 40);
    host.wait().with_code(0);
}

/// As many bytes as may be read for a plan.
#[test]
fn bytes_that_a_plan_is_made_of() {
    let place = TestDir::new();
    let file = place.write("in", vec![b'x'; 32 << 20]);
    let more = "options = { do = 'plan-all' }\nmax_record = '1MiB'";
    let config = small(BAD_PLUGIN, &format!("file = {file:?}"), more);
    let config = config.replace("memory = '34MiB'", "memory = '80MiB'");
    assert_eq!(run_within_account(&place, &config, 0).expect("it is allowed"), 0);
}

/// Records whose fields share their bytes are small when they are decoded, and large when they are
/// copied.
#[test]
fn bytes_that_fields_share() {
    for (more, is_copied) in [
        ("batch = 30", false),
        ("batch = 30\nworkers = 2", false),
        ("batch = 30\nshuffle = { seed = 1, window = 50 }", true),
    ] {
        let place = TestDir::new();
        let file = place.write("in", [b'x'; 200]);
        let more = format!("options = {{ do = 'share-schema' }}\nmax_record = '8MiB'\n{more}");
        let config = small(BAD_PLUGIN, &format!("file = {file:?}"), &more);
        let read = run_within_account(&place, &config, if is_copied { 65 } else { 0 });
        if is_copied {
            check_over_budget(&read);
        } else {
            assert_eq!(read.expect("bytes that are shared are there once"), 200);
        }
    }
}

/// The window of a decompressor is the host's memory, and a small file may ask for a large one.
#[test]
fn windows_of_zstd() {
    const LINES: usize = 2 << 10;
    let place = TestDir::new();
    let line = [vec![b'x'; (128 << 10) - 1], vec![b'\n']].concat();
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).expect("there is memory");
    encoder.window_log(27).expect("it is allowed");
    (0..LINES).for_each(|_| encoder.write_all(&line).expect("memory can be written to"));
    let file = place.write("in.zst", encoder.finish().expect("memory can be written to"));
    let config = format!(
        "[[channel]]\nname = 'train'\ndecoder = 'lines'\nsource = {{ file = {file:?} }}\n\
         max_record = '256KiB'\n[channel.ring]\nslots = 4\nslot_size = '256KiB'\ncredits = 2\n\
         [channel.limits]\nmemory = '17MiB'\noutput = '1MiB'\nbatches = '2MiB'\n"
    );
    assert_eq!(run_within_account(&place, &config, 0).expect("it fits"), LINES);
}

/// Errors that workers find ahead of the channel wait, and take no more memory than records would.
#[test]
fn errors_that_workers_skip() {
    const BAD: usize = 300_000;
    let place = TestDir::new();
    let bad: String = "x\n".repeat(BAD);
    for number in 0..3 {
        let text = format!("{bad}{number}\n");
        place.write(&format!("in/{number}.csv.gz"), inputs::gzip(text.as_bytes()));
    }
    let folder = place.path("in");
    let config = format!(
        "[[channel]]\nname = 'train'\ndecoder = 'csv'\noptions = {{ types = 'int64', header = 'false' }}\n\
         source = {{ folder = {folder:?} }}\nworkers = 4\non_error = 'skip'\nmax_errors = 1000000000\n\
         max_record = '64KiB'\n[channel.ring]\nslots = 4\nslot_size = '64KiB'\ncredits = 2\n\
         [channel.limits]\nmemory = '17MiB'\noutput = '1MiB'\nbatches = '10MiB'\n"
    );
    let read = run_within_account(&place, &config, 0);
    assert_eq!(read.expect("errors are skipped"), 3);
}
