//! Outputs that nobody reads, or that can't be written, hold up neither records nor signals.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::process::Command;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::Signal;
use pipemill_tests::host::{self, Host};
use pipemill_tests::process::{Process, finish};
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{BAD_PLUGIN, consumer, pipemill, until};
use serde_json::Value;

/// A channel of lines that reads this file.
fn lines(place: &TestDir, name: &str, more: &str) -> String {
    let file = place.write(&format!("{name}.txt"), "one\ntwo\nthree\n");
    format!(
        "[[channel]]\nname = {name:?}\ndecoder = 'lines'\nsource = {{ file = {file:?} }}\n{more}"
    )
}

/// A channel whose decoder logs 1,000 lines of 1,000 bytes.
fn flood(place: &TestDir, name: &str) -> String {
    for number in 0..6 {
        place.write(&format!("{name}/{number}"), "0123456789abcdef");
    }
    let folder = place.path(name);
    format!(
        "[[channel]]\nname = {name:?}\nsource = {{ folder = {folder:?} }}\n\
         decoder = {BAD_PLUGIN:?}\noptions = {{ do = 'log-flood' }}\n"
    )
}

fn read(place: &TestDir, channel: &str) -> usize {
    let mut reader = consumer::connect(&place.path("run/host.sock"), channel, None);
    consumer::read(&mut reader).well().len()
}

#[test]
fn records_are_delivered_while_nobody_reads_the_log() {
    let place = TestDir::new();
    let config = [flood(&place, "flood"), lines(&place, "quiet", "")].concat();
    let process = Process::start_full(&mut host::command(&pipemill!(), &place, &config));
    assert_eq!(read(&place, "quiet"), 3);
    assert_eq!(read(&place, "flood"), 6 * 16);
    process.wait().with_code(0);
}

/// More lines than the host keeps. The dropped ones are counted, and the log says so in their
/// place.
#[test]
fn lines_that_nobody_read_are_told() {
    let place = TestDir::new();
    let floods = ["a", "b", "c"];
    let channels: String = floods.iter().map(|name| flood(&place, name)).collect();
    let metrics = place.path("run/metrics.sock");
    let config = format!("metrics = {metrics:?}\n{channels}{}", lines(&place, "quiet", ""));
    let mut process = Process::start_full(&mut host::command(&pipemill!(), &place, &config));
    for name in floods {
        assert_eq!(read(&place, name), 6 * 16);
    }
    let ask = UnixStream::connect(&metrics).expect("it listens");
    let mut answer = String::new();
    std::io::Write::write_all(&mut &ask, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        .expect("it is connected");
    (&ask).read_to_string(&mut answer).expect("it answers");
    let dropped =
        answer.lines().find_map(|line| line.strip_prefix("pipemill_log_lines_dropped_total "));
    let dropped: u64 = dropped.expect("there is such a metric").parse().expect("a number");
    assert!(dropped > 1_000, "{dropped}");
    process.read_stderr();
    assert_eq!(read(&place, "quiet"), 3);
    let ended = process.wait().with_code(0);
    let notice = " lines of the log were dropped, because nobody read standard error";
    let told = ended.stderr.lines().filter_map(|line| line.strip_suffix(notice));
    let told: Vec<_> = told.filter_map(|line| line.strip_prefix("pipemill: warn: ")).collect();
    let [told] = told[..] else { panic!("expected one notice, found {told:?}") };
    assert!(told.parse::<u64>().expect("a number") >= dropped, "{told} < {dropped}");
    ended.says(&["channel `quiet` ended: 3 records"]);
}

/// The command saves its work, and its exit code is the host's.
#[test]
fn a_signal_reaches_command_and_host_while_nobody_reads_the_log() {
    let place = TestDir::new();
    // A shell says on standard error that a process of its own has ended.
    let script = "exec 2>/dev/null; trap 'echo saved > saved; exit 7' TERM; echo up > up; \
                  while :; do sleep 0.01; done";
    let config = [flood(&place, "flood"), lines(&place, "quiet", "")].concat();
    let mut command = host::command(&pipemill!(), &place, &config);
    command.current_dir(place.folder()).args(["--", "sh", "-c", script]);
    let process = Process::start_full(&mut command);
    until("the command is up", || place.path("up").exists());
    process.signal(Signal::SIGTERM);
    process.wait().with_code(7);
    assert_eq!(std::fs::read_to_string(place.path("saved")).expect("it is there"), "saved\n");
}

#[test]
fn a_host_alone_obeys_signals_while_nobody_reads_the_log() {
    let place = TestDir::new();
    let config = [flood(&place, "flood"), lines(&place, "quiet", "")].concat();
    let process = Process::start_full(&mut host::command(&pipemill!(), &place, &config));
    assert_eq!(read(&place, "flood"), 6 * 16);
    process.signal(Signal::SIGTERM);
    process.wait().with_code(143);
}

/// A failure ends the command, and determines the exit code.
#[test]
fn a_failure_has_its_code_while_nobody_reads_the_log() {
    let place = TestDir::new();
    let bad = lines(&place, "bad", "max_record = '1KiB'\n");
    place.write("bad.txt", "x".repeat(3_000));
    let config = format!("fail_grace = '50ms'\n{bad}");
    let mut command = host::command(&pipemill!(), &place, &config);
    Process::start_full(command.args(["--", "sleep", "1000"])).wait().with_code(65);
    // The same without a host at all: the last message has nowhere to go.
    let mut wrong = host::command(&pipemill!(), &place, "what = 1\n");
    Process::start_full(&mut wrong).wait().with_code(64);
}

/// If somebody reads again before the end, nothing of a small log is lost.
#[test]
fn what_was_not_read_is_read_later() {
    let place = TestDir::new();
    let bad = lines(&place, "bad", "max_record = '1KiB'\n");
    place.write("bad.txt", "x".repeat(3_000));
    let config = format!("fail_grace = '1h'\n{bad}");
    let mut process = Process::start_full(&mut host::command(&pipemill!(), &place, &config));
    let mut reader = consumer::connect(&place.path("run/host.sock"), "bad", None);
    process.read_stderr();
    assert!(consumer::read(&mut reader).report().message.contains("max_record"));
    drop(reader);
    process.wait().with_code(65).says(&[
        "serving bad on ",
        "line is longer than max_record (1024 bytes)",
        "channel `bad` failed",
    ]);
}

/// `feed` is also a host for others.
#[test]
fn a_feeder_obeys_signals_while_nobody_reads_the_log() {
    let place = TestDir::new();
    place.write("in/a", "a\n");
    let mut command = Command::new(pipemill!());
    command
        .args(["feed", "--from", "in", "--to", "fifos", "--channel", "train"])
        .current_dir(place.folder());
    let process = Process::start_full(command.env("PIPEMILL_LOG", "trace"));
    until("it feeds", || place.path("fifos/train_0").exists());
    process.signal(Signal::SIGTERM);
    process.wait().with_code(143);
    assert!(!place.path("fifos/train_0").exists());
}

#[test]
fn a_trace_that_nobody_reads_holds_up_nobody() {
    let place = TestDir::new();
    let fifo = place.fifo("trace");
    let config = lines(&place, "train", "");
    let trace = |config: &str| {
        let mut command = host::command(&pipemill!(), &place, config);
        command.args(["--trace", fifo.to_str().expect("UTF-8")]);
        command
    };
    finish(&mut trace(&config))
        .with_code(64)
        .says(&["nobody reads this FIFO; start its reader first"]);
    let mut reading = File::options();
    let reader = reading.read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(&fifo);
    let reader = reader.expect("it is there");
    fcntl(&reader, FcntlArg::F_SETPIPE_SZ(1)).expect("a pipe can be made small");
    // The events of a hundred chunks are more than fit into a page.
    let numbers: String = (0..700_000).map(|number| format!("{number:08}\n")).collect();
    place.write("train.txt", numbers);
    let config = config + "[channel.ring]\nslots = 4\nslot_size = '64KiB'\n";
    let mut command = trace(&config);
    command.args(["--", consumer!(), "train"]);
    finish(&mut command).with_code(0).says(&["the trace ", " is not whole: nobody reads it"]);
    drop(reader);
}

/// All outputs at once. Those that can be pipes are full before the signal comes, and nobody ever
/// reads them; those that must be files are whole.
#[test]
fn a_host_obeys_signals_while_all_outputs_are_blocked() {
    let place = TestDir::new();
    place.make_folder("kept");
    let (trace, metrics) = (place.fifo("trace"), place.path("run/metrics.sock"));
    let (report, quarantine) = (place.path("report.html"), place.path("bad.jsonl"));
    let mut reading = File::options();
    let unread = reading.read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(&trace);
    let unread = unread.expect("it is there");
    fcntl(&unread, FcntlArg::F_SETPIPE_SZ(1)).expect("a pipe can be made small");
    let more = format!(
        "on_error = 'quarantine'\nquarantine = {quarantine:?}\nmax_record = '1KiB'\n\
         [channel.ring]\nslots = 4\nslot_size = '64KiB'\n"
    );
    let config = format!(
        "metrics = {metrics:?}\n{}{}{}",
        flood(&place, "flood"),
        lines(&place, "bad", &more),
        with_checkpoint(&place),
    );
    // Events of more chunks than fit into the trace's page.
    let numbers: String = (0..700_000).map(|number| format!("{number:08}\n")).collect();
    place.write("bad.txt", format!("{}\n{numbers}", "z".repeat(3_000)));
    let mut command = host::command(&pipemill!(), &place, &config);
    command.arg("--trace").arg(&trace).arg("--report").arg(&report);
    let process = Process::start_full(&mut command);
    assert_eq!(read(&place, "flood"), 6 * 16);
    assert_eq!(read(&place, "bad"), 700_000);
    let silent = UnixStream::connect(&metrics).expect("it listens");
    std::io::Write::write_all(&mut &silent, b"GET /metrics HTTP/1.1\r\n").expect("it takes it");
    process.signal(Signal::SIGTERM);
    process.wait().with_code(143);
    drop((unread, silent));
    assert!(std::fs::read_to_string(report).expect("it is there").ends_with("</html>\n"));
    let kept = std::fs::read_to_string(quarantine).expect("it is there");
    assert_eq!(kept.lines().count(), 1);
    for text in [kept, std::fs::read_to_string(place.path("kept/train.json")).expect("it is there")]
    {
        assert!(serde_json::from_str::<Value>(&text).is_ok(), "{text}");
    }
}

/// It keeps bytes that nobody else has, so it must be a file.
#[test]
fn a_quarantine_that_is_no_file_fails_its_channel_alone() {
    let place = TestDir::new();
    let fifo = place.fifo("quarantine");
    let bad = format!("on_error = 'quarantine'\nquarantine = {fifo:?}\nmax_record = '1KiB'\n");
    let bad = lines(&place, "bad", &bad);
    place.write("bad.txt", format!("{}\nx\n", "x".repeat(3_000)));
    let config = format!("fail_grace = '1h'\n{bad}{}", lines(&place, "quiet", ""));
    let host = Host::start(&pipemill!(), &place, &config);
    let read = host.read("bad");
    let message = &read.report().message;
    assert!(message.contains("can't be written: it is no regular file"), "{message}");
    assert_eq!(host.read("quiet").well().len(), 3);
    host.wait().with_code(65);
}

/// The limit of a file's size has the effect of a full disk: an error with words, and a torn line.
#[test]
fn a_quarantine_goes_on_after_a_disk_was_full() {
    let place = TestDir::new();
    let kept = place.path("bad.jsonl");
    let more = format!(
        "on_error = 'quarantine'\nquarantine = {kept:?}\nmax_record = '1KiB'\n\
         [channel.ring]\nslots = 4\nslot_size = '64KiB'\n"
    );
    let config = format!("fail_grace = '50ms'\n{}", lines(&place, "bad", &more));
    place.write("bad.txt", format!("00000000\n{}\n00000001\n", "z".repeat(6 << 20)));
    let limited = host::command(&pipemill!(), &place, &config);
    let words: Vec<_> = [limited.get_program()].into_iter().chain(limited.get_args()).collect();
    let words: Vec<_> = words.iter().map(|word| format!("'{}'", word.display())).collect();
    let mut shell = Command::new("sh");
    // These blocks are 2 or 4 MiB, depending on the shell.
    shell.args(["-c", &format!("ulimit -f 4096; exec {}", words.join(" "))]);
    let full = finish(&mut shell).with_code(65);
    full.says(&["bad.jsonl can't be written: File too large", "on a disk that has room"]);
    place.write("bad.txt", format!("00000000\n{}\n00000001\n", "z".repeat(3_000)));
    let mut command = host::command(&pipemill!(), &place, &config);
    finish(command.args(["--", consumer!(), "bad"])).with_code(0);
    let text = std::fs::read_to_string(&kept).expect("it is there");
    let [torn, whole] = text.lines().collect::<Vec<_>>()[..] else { panic!("expected two lines") };
    assert!(torn.len() >= 2 << 20 && serde_json::from_str::<Value>(torn).is_err());
    let whole: Value = serde_json::from_str(whole).expect("it is JSON");
    assert_eq!((&whole["offset"], &whole["length"]), (&9.into(), &3_001.into()));
}

/// A FIFO in a folder that keeps the channel going.
fn with_checkpoint(place: &TestDir) -> String {
    format!(
        "[[channel]]\nname = 'train'\ndecoder = 'lines'\nbatch = 2\nsource = {{ fifo = {:?} }}\n\
         checkpoint = {{ path = {:?}, every = '1s' }}\n",
        place.text("pipes"),
        place.path("kept/train.json")
    )
}

#[test]
fn one_host_writes_a_checkpoint() {
    let place = TestDir::new();
    place.make_folder("kept");
    let (first, second) = (TestDir::new(), TestDir::new());
    let config = with_checkpoint(&place);
    let holder = Host::start(&pipemill!(), &first, &config);
    until("it holds the file", || first.path("run/host.sock").exists());
    let mut command = host::command(&pipemill!(), &second, &config);
    let says =
        ["another host writes the checkpoint", "train.json; end that host, or set another `path`"];
    finish(&mut command).with_code(71).says(&says);
    // The files that a killed host leaves hinder nobody, and are removed.
    holder.process.signal(Signal::SIGKILL);
    assert_eq!(holder.wait().signal, Some(9));
    place.write("kept/.train.json.killed.new", "[");
    let next = Host::start(&pipemill!(), &second, &config);
    until("it holds the file", || second.path("run/host.sock").exists());
    next.process.signal(Signal::SIGTERM);
    next.wait().with_code(143);
    assert_eq!(place.names("kept"), ["train.json"]);
}
