//! Failure stays where it was made: whatever the decoder, the data or a consumer of one channel
//! does, another channel of the host delivers all of its records. There is a case for each row of
//! docs/security.md that has no test with a second channel elsewhere:
//! `tests/pages/test_security_page.py` compares.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::unistd::Pid;
use pipemill_ring::protocol::{BatchAcross, BatchSize, Hello, Pass, Tail};
use pipemill_ring::reader::{Event, Reader, ReaderError};
use pipemill_tests::consumer::connect_as;
use pipemill_tests::host::Host;
use pipemill_tests::process::state;
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::tiny::tiny_with_window;
use pipemill_tests::{BAD_PLUGIN, consumer, inputs, pipemill, until};

use super::{lines, numbered};

/// The channel that the test disturbs, and the one whose records it counts.
const BAD: &str = "bad";
const GOOD: &str = "good";

/// A disturbance of a channel.
struct Case {
    name: &'static str,
    /// The channel, as TOML.
    config: fn(&TestDir) -> String,
    /// Disturbs it, and returns how it ended.
    act: fn(&Host),
    /// The exit code of the host: the channel has failed, or not.
    code: i32,
}

const CASES: [Case; 12] = [
    Case { name: "a decoder logs without end", config: flood, act: all_of_flood, code: 0 },
    Case { name: "a decoder writes into its window", config: scribbler, act: own_bytes, code: 0 },
    Case { name: "batches are too large", config: large_batches, act: over_budget, code: 65 },
    Case { name: "workers skip errors", config: errors, act: three_records, code: 0 },
    Case { name: "an input of a mix is broken", config: broken_mix, act: fails, code: 65 },
    Case { name: "a consumer asks for large batches", config: large, act: wishes, code: 0 },
    Case { name: "a consumer brings a state of elsewhere", config: plain, act: lies, code: 0 },
    Case { name: "a consumer ACKs what it has not read", config: plain, act: acks, code: 0 },
    Case { name: "a consumer ends epochs", config: plain, act: ends_epochs, code: 0 },
    Case { name: "a consumer takes the place of another", config: plain, act: passes, code: 0 },
    Case { name: "a consumer holds all that it gets", config: plain, act: holds, code: 0 },
    Case { name: "a consumer hangs up before its ACK", config: plain, act: hangs_up, code: 0 },
];

#[test]
fn another_channel_delivers_all_of_its_records() {
    let records = numbered(2_000, 100);
    let (before, after) = records.split_at(1_000);
    for Case { name, config, act, code } in CASES {
        println!("{name}");
        let place = TestDir::new();
        let fifo = place.fifo("good_0");
        let config = format!(
            "{}\n[[channel]]\nname = '{GOOD}'\ndecoder = 'lines'\nsource = {{ fifo = {:?}, epochs = 1 }}\n\
             [channel.ring]\nslots = 4\nslot_size = '64KiB'\n",
            config(&place),
            place.folder(),
        );
        let host = Host::start(&pipemill!(), &place, &config);
        let mut good = host.connect(GOOD);
        let mut writer = File::options().write(true).open(&fifo).expect("the host reads it");
        let mut write = |records: &[Vec<u8>]| {
            let text = [records.join(&b'\n'), b"\n".to_vec()].concat();
            writer.write_all(&text).expect("the host reads all");
        };
        write(before);
        let first = read_some(&mut good, before.len());
        assert!(first == before, "{name}: other records before it");
        act(&host);
        write(after);
        drop(writer);
        let rest = consumer::read(&mut good);
        let epochs: Vec<_> = rest.epochs.iter().map(|end| (end.records, end.early)).collect();
        assert_eq!(epochs, [(records.len() as u64, false)], "{name}");
        assert!(rest.well() == after, "{name}: other records after it");
        host.wait().with_code(code);
    }
}

/// This many records, which end a batch.
fn read_some(reader: &mut Reader, count: usize) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    while records.len() < count {
        match reader.next() {
            Ok(Event::Batch(batch)) => records.extend(consumer::records(&batch)),
            other => panic!("expected a batch, found {other:?}"),
        }
    }
    records
}

// ---- decoders

fn channel(decoder: &str, source: &str, more: &str) -> String {
    format!("[[channel]]\nname = '{BAD}'\ndecoder = {decoder:?}\nsource = {{ {source} }}\n{more}\n")
}

const FLOODED: usize = 12;
const FLOOD: &[u8] = b"0123456789abcdef";

fn flood(place: &TestDir) -> String {
    for number in 0..FLOODED {
        place.write(&format!("in/{number}"), FLOOD);
    }
    let source = format!("folder = {:?}", place.path("in"));
    channel(BAD_PLUGIN, &source, "options = { do = 'log-flood' }")
}

fn all_of_flood(host: &Host) {
    assert_eq!(host.read(BAD).well().len(), FLOODED * FLOOD.len());
}

/// Gives the window the end of the memory.
const SET_ASIDE: &str =
    "(i32.shl (memory.grow (i32.shr_u (local.get $size) (i32.const 16))) (i32.const 16))";
/// More bytes than are copied into a sandbox.
const WINDOWED: usize = 3 << 20;

fn scribbler(place: &TestDir) -> String {
    let fill = "(memory.fill (local.get $chunk) (i32.const 0xff) (local.get $size))";
    let plugin = place.write("scribbler.wasm", tiny_with_window(SET_ASIDE, fill));
    let input = place.write("in", vec![b'x'; WINDOWED]);
    let more = "[channel.ring]\nslots = 4\nslot_size = '4MiB'";
    channel(path(&plugin), &format!("file = {input:?}"), more)
}

fn own_bytes(host: &Host) {
    assert!(host.read(BAD).well().concat() == vec![b'x'; WINDOWED], "it wrote to the ring");
}

// ---- data

/// A channel of lines of 1 MiB, whose batches may have 16 MiB.
fn large(place: &TestDir) -> String {
    let line = [vec![b'x'; (1 << 20) - 1], b"\n".to_vec()].concat();
    let file = place.write("in.gz", inputs::gzip(&line.repeat(40)));
    let more = "max_record = '2MiB'\n[channel.ring]\nslots = 4\nslot_size = '1MiB'\n\
                [channel.limits]\nbatches = '20MiB'";
    channel("lines", &format!("file = {file:?}"), more)
}

fn large_batches(place: &TestDir) -> String {
    large(place).replace("max_record", "batch = 30\nmax_record")
}

fn over_budget(host: &Host) {
    let read = host.read(BAD);
    assert!(read.report().message.contains("limits.batches"), "{read:?}");
}

fn errors(place: &TestDir) -> String {
    for number in 0..3 {
        place.write(&format!("in/{number}.csv"), format!("{}{number}\n", "x\n".repeat(20_000)));
    }
    let more = "options = { types = 'int64', header = 'false' }\nworkers = 2\non_error = 'skip'\n\
                max_errors = 1000000";
    channel("csv", &format!("folder = {:?}", place.path("in")), more)
}

fn three_records(host: &Host) {
    assert_eq!(host.read(BAD).well().len(), 3);
}

fn broken_mix(place: &TestDir) -> String {
    let (whole, broken) = (place.write("a", "1\n".repeat(100)), place.write("b", "1\n2\nx\n"));
    let input = |name: &str, file: &Path| {
        let options = "options = { types = 'int64', header = 'false' }";
        let source = format!("file = {file:?}");
        channel("csv", &source, options).replace(&format!("'{BAD}'"), &format!("'{name}'"))
    };
    format!(
        "[[channel]]\nname = '{BAD}'\nsource = {{ mix = {{ a = 1, b = 1 }} }}\nbatch = 2\n{}{}",
        input("a", &whole),
        input("b", &broken)
    )
}

fn fails(host: &Host) {
    let read = host.read(BAD);
    let message = &read.report().message;
    assert!(message.contains("/b") && message.contains("int64"), "{message}");
}

// ---- consumers

/// Records of the bad channel, in three epochs.
const RECORDS: usize = 3_000;

fn plain(place: &TestDir) -> String {
    lines(place, BAD, &numbered(RECORDS, 100), "")
}

/// Another consumer gets all.
fn is_whole(host: &Host) {
    assert_eq!(host.read(BAD).well().len(), 3 * RECORDS);
}

fn wishes(host: &Host) {
    let batch = BatchSize { records: 30, tail: Tail::Keep, across: BatchAcross::Epoch };
    let hello = Hello { batch: Some(batch), ..Hello::new(BAD, "wishes") };
    let read =
        consumer::read(&mut connect_as(&host.socket, &hello).expect("its wish is no wrong one"));
    assert!(read.report().message.contains("limits.batches"), "{read:?}");
    assert_eq!(host.read(BAD).well().len(), 40);
}

fn lies(host: &Host) {
    let reader = host.connect(BAD);
    let mut state = serde_json::to_value(reader.state().expect("it reads alone")).expect("JSON");
    drop(reader);
    state["object"] = "elsewhere".into();
    state["decoder"] = "another".into();
    let hello = Hello { state: Some(state), ..Hello::new(BAD, "lies") };
    let refused = connect_as(&host.socket, &hello).map(|mut reader| consumer::read(&mut reader));
    let is_told = match &refused {
        Err(ReaderError::Refused(why)) => !why.is_empty(),
        Ok(read) => read.error.is_some(),
        Err(_) => false,
    };
    assert!(is_told, "{refused:?}");
    is_whole(host);
}

/// The batches that it has ACKed are delivered to no other consumer.
fn acks(host: &Host) {
    let mut reader = host.connect(BAD);
    let first = reader.next().expect("the host is well");
    let Event::Batch(batch) = first else { panic!("expected a batch") };
    batch.ack();
    let records = batch.records();
    drop((batch, reader));
    assert_eq!(host.read(BAD).well().len() + records, 3 * RECORDS);
}

fn ends_epochs(host: &Host) {
    let mut reader = host.connect(BAD);
    let mut epochs = Vec::new();
    loop {
        match reader.next().expect("the host is well") {
            Event::Batch(batch) => reader.end_epoch(batch.epoch()),
            Event::EpochEnd(end) => epochs.push(end.epoch),
            Event::StreamEnd => break,
        }
    }
    assert_eq!(epochs, [0, 1, 2]);
}

/// A newer pass of a program ends the older pass.
fn passes(host: &Host) {
    let hello = |number| Hello {
        pass: Some(Pass { program: "guessed".to_owned(), number }),
        ..Hello::new(BAD, "passes")
    };
    let mut older = connect_as(&host.socket, &hello(1)).expect("it is the first");
    let newer = connect_as(&host.socket, &hello(2)).expect("it is newer");
    let ended = consumer::read(&mut older).error;
    assert!(ended.is_some(), "the older pass goes on");
    drop(newer);
    assert!(host.read(BAD).error.is_none());
}

fn holds(host: &Host) {
    let hello = Hello { credits: Some(u32::MAX), ..Hello::new(BAD, "holds") };
    let mut reader = connect_as(&host.socket, &hello).expect("it asks for credits");
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(reader.next().expect("the host is well"));
    }
    drop((held, reader));
    // The batches before the last one were ACKed by asking for the next.
    let rest = host.read(BAD).well().len();
    assert!(rest > 0 && rest < 3 * RECORDS, "{rest} records");
}

/// A process that stops itself inside its first batch, and is killed there.
fn hangs_up(host: &Host) {
    for _ in 0..3 {
        let mut command = Command::new(consumer!());
        command.args([BAD, "1", "about", "0"]).env("PIPEMILL_SOCKET", &host.socket);
        let mut reader = command.stdout(Stdio::null()).spawn().expect("it can be started");
        let pid = Pid::from_raw(reader.id() as i32);
        until("it stands in a batch", || state(pid).is_some_and(|(state, _)| state == 'T'));
        reader.kill().expect("it is our own child");
        reader.wait().expect("it is our own child");
    }
    is_whole(host);
}

fn path(path: &Path) -> &str {
    path.to_str().expect("the test's own folder")
}
