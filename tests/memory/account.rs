//! What a channel takes stays below the account that `config check` gives, whatever its data, its
//! decoder and its consumers ask for.

use std::fmt::Write;
use std::process::Command;

use nix::unistd::Pid;
use pipemill_ring::protocol::{BatchAcross, BatchSize, ErrorKind, Hello, Tail};
use pipemill_ring::reader::{Event, Reader, ReaderError};
use pipemill_tests::host::Host;
use pipemill_tests::process::finish;
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{BAD_PLUGIN, inputs, pipemill, until};

const MIB: u64 = 1 << 20;
/// What the host takes in addition to its channels: code, threads, compiled plugins.
const HOST: u64 = 64 * MIB;

/// Bytes that the channels of the configuration may take together, as `config check` says.
fn account(place: &TestDir) -> u64 {
    let mut command = Command::new(pipemill!());
    command.args(["config", "check"]).arg(place.path("pipemill.toml"));
    let said = finish(&mut command).with_code(0).text();
    let of_line = |line: &str| {
        let (_, rest) = line.split_once(": takes at most ")?;
        let (size, _) = rest.split_once(':')?;
        let (number, factor) = match size.strip_suffix("MiB") {
            Some(number) => (number, MIB),
            None => (size.strip_suffix("GiB").expect("MiB or GiB"), 1024 * MIB),
        };
        Some(number.parse::<u64>().expect("a number") * factor)
    };
    said.lines().filter_map(of_line).sum()
}

/// The most bytes that a process ever had, without those of its files. None where it has ended.
fn peak(pid: Pid) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let of = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib << 10)
    };
    Some(of("VmHWM:")?.saturating_sub(of("RssFile:")?))
}

/// Reads a channel to its end or error, and checks what the host has taken until then. Returns the
/// number of its records, or the error.
fn read_within_account(
    place: &TestDir,
    host: &Host,
    reader: &mut Reader,
) -> Result<usize, ReaderError> {
    let (mut records, mut most) = (0, 0);
    let read = loop {
        let event = reader.next();
        // The host may end as soon as the stream has.
        most = most.max(peak(host.process.pid()).unwrap_or(0));
        match event {
            Ok(Event::Batch(batch)) => records += batch.records(),
            Ok(Event::EpochEnd(_)) => {}
            Ok(Event::StreamEnd) => break Ok(records),
            Err(error) => break Err(error),
        }
    };
    let account = account(place);
    println!("{} MiB of {} MiB", most / MIB, account / MIB);
    assert!(most > 0 && most < account + HOST, "{most} bytes, of {account}");
    read
}

/// A channel of long lines that compress well, with limits that make its account small.
fn lines(place: &TestDir, count: usize, bytes: usize, more: &str) -> String {
    let mut line = vec![b'x'; bytes];
    line.push(b'\n');
    let file = place.write("in.gz", inputs::gzip(&line.repeat(count)));
    format!(
        "[[channel]]\nname = 'train'\ndecoder = 'lines'\nmax_record = '9MiB'\n\
         source = {{ file = {file:?} }}\n{more}\n\
         [channel.ring]\nslots = 4\nslot_size = '1MiB'\ncredits = 2\n\
         [channel.limits]\nmemory = '34MiB'\noutput = '9MiB'\nbatches = '100MiB'\n"
    )
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
        let host = Host::start(&pipemill!(), &place, &lines(&place, 40, 8 << 20, more));
        let mut reader = host.connect("train");
        check_over_budget(&read_within_account(&place, &host, &mut reader));
        drop(reader);
        host.wait().with_code(65);
    }
}

/// What fits takes no more than it may, although there are more buffers than would fit together.
#[test]
fn batches_wait_for_memory() {
    let place = TestDir::new();
    let config = lines(&place, 40, 8 << 20, "batch = 4");
    let host = Host::start(&pipemill!(), &place, &config);
    let mut reader = host.connect("train");
    let read = read_within_account(&place, &host, &mut reader);
    assert_eq!(read.expect("it fits"), 40);
    drop(reader);
    host.wait().with_code(0);
}

/// A consumer's wish is its own fault.
#[test]
fn a_batch_that_a_consumer_asks_for() {
    let place = TestDir::new();
    let host = Host::start(&pipemill!(), &place, &lines(&place, 40, 8 << 20, ""));
    let batch = BatchSize { records: 30, tail: Tail::Keep, across: BatchAcross::Epoch };
    let socket = place.path("run/host.sock");
    let hello = Hello { batch: Some(batch), ..Hello::new("train", "test") };
    let mut connected = None;
    until("the host serves", || {
        connected = Reader::connect_as(&socket, &hello, false).ok();
        connected.is_some()
    });
    let mut reader = connected.expect("it is connected");
    check_over_budget(&read_within_account(&place, &host, &mut reader));
    drop(reader);
    // Without that wish, the channel has all of its records.
    assert_eq!(host.read("train").well().len(), 40);
    host.wait().with_code(0);
}

/// Records whose fields share their bytes are small where they are decoded, and large where they are
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
        let config = format!(
            "[[channel]]\nname = 'train'\ndecoder = '{BAD_PLUGIN}'\noptions = {{ do = 'share-schema' }}\n\
             max_record = '8MiB'\nsource = {{ file = {file:?} }}\n{more}\n\
             [channel.ring]\nslots = 4\nslot_size = '1MiB'\ncredits = 2\n\
             [channel.limits]\nmemory = '34MiB'\noutput = '9MiB'\nbatches = '100MiB'\n"
        );
        let host = Host::start(&pipemill!(), &place, &config);
        let mut reader = host.connect("train");
        let read = read_within_account(&place, &host, &mut reader);
        if is_copied {
            check_over_budget(&read);
        } else {
            assert_eq!(read.expect("bytes that are shared are there once"), 200);
        }
        drop(reader);
        host.wait().with_code(if is_copied { 65 } else { 0 });
    }
}

/// Errors that workers find ahead of the channel wait, and take no more than records would.
#[test]
fn errors_that_workers_skip() {
    const BAD: usize = 300_000;
    let place = TestDir::new();
    let bad: String = "x\n".repeat(BAD);
    for number in 0..3 {
        let text = format!("{bad}{number}\n");
        place.write(&format!("in/{number}.csv.gz"), inputs::gzip(text.as_bytes()));
    }
    let mut config = String::new();
    let folder = place.path("in");
    write!(
        config,
        "[[channel]]\nname = 'train'\ndecoder = 'csv'\noptions = {{ types = 'int64', header = 'false' }}\n\
         source = {{ folder = {folder:?} }}\nworkers = 4\non_error = 'skip'\nmax_errors = 1000000000\n\
         max_record = '64KiB'\n[channel.ring]\nslots = 4\nslot_size = '64KiB'\ncredits = 2\n\
         [channel.limits]\nmemory = '17MiB'\noutput = '1MiB'\nbatches = '10MiB'\n"
    )
    .expect("a string takes it");
    let host = Host::start(&pipemill!(), &place, &config);
    let mut reader = host.connect("train");
    let read = read_within_account(&place, &host, &mut reader);
    assert_eq!(read.expect("errors are skipped"), 3);
    drop(reader);
    host.wait().with_code(0);
}
