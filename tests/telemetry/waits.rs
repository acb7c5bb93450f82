//! The things that a channel waits for and does not get, wherever they are reported. The rule for
//! the log is tested with made-up times in `host/telemetry/src/wait_log.rs`; these tests check that
//! there is a message at all.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel as queue};
use std::time::Instant;

use pipemill_ring::status_client::StatusClient;
use pipemill_tests::host::{self, Host};
use pipemill_tests::process::{LOG_FORMAT, Process, finish};
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{PATIENCE, consumer, pipemill, until};
use serde_json::Value;

/// As the consumer's process expects them.
const RECORDS: [&str; 3] = ["00000000", "00000001", "00000002"];

fn records() -> Vec<Vec<u8>> {
    RECORDS.map(|record| record.as_bytes().to_vec()).into()
}

fn channel(name: &str, source: &str, more: &str) -> String {
    format!("[[channel]]\nname = '{name}'\ndecoder = 'lines'\nsource = {{ {source} }}\n{more}\n")
}

/// A channel of a file of three lines.
fn of_file(place: &TestDir, name: &str, more: &str) -> String {
    let file = place.write("three.txt", RECORDS.join("\n"));
    channel(name, &format!("file = {file:?}"), more)
}

/// The status of a channel, as soon as `has` accepts it.
fn status(socket: &Path, what: &str, has: impl Fn(&Value) -> bool) -> Value {
    let mut found = Value::Null;
    until(what, || {
        let Ok(mut client) = StatusClient::connect(socket) else { return false };
        let status = client.status().expect("the host is well");
        let mut status: Value = serde_json::from_slice(&status).expect("it is JSON");
        found = status["channels"][0].take();
        has(&found)
    });
    found
}

/// The same, as soon as it waits for this reason.
fn waiting(socket: &Path, reason: &str) -> Value {
    let status = status(socket, reason, |channel| channel["waits_for"]["reason"] == reason);
    let wait = &status["waits_for"];
    assert!(wait["seconds"].as_f64().is_some_and(|seconds| seconds >= 0.0), "{wait}");
    assert!(wait["remedy"].as_str().is_some_and(|remedy| !remedy.is_empty()), "{wait}");
    status
}

#[track_caller]
fn what(status: &Value) -> &str {
    status["waits_for"]["what"].as_str().expect("it waits")
}

/// The output of `pipemill top`.
fn top(socket: &Path) -> String {
    let mut command = Command::new(pipemill!());
    finish(command.args(["top", "--once", "--socket"]).arg(socket)).with_code(0).text()
}

/// The value of `pipemill_waiting_seconds` for this reason.
fn metric(socket: &Path, channel: &str, reason: &str) -> f64 {
    let mut stream = UnixStream::connect(socket).expect("it listens");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").expect("it is connected");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers, and closes");
    let name = format!("pipemill_waiting_seconds{{channel=\"{channel}\",reason=\"{reason}\"}} ");
    let line = answer.lines().find_map(|line| line.strip_prefix(&name));
    let value = line.unwrap_or_else(|| panic!("no {name} in {answer}"));
    value.parse().expect("a number")
}

#[test]
fn a_broadcast_that_lacks_a_consumer_says_so_everywhere() {
    let place = TestDir::new();
    let metrics = place.path("run/metrics.sock");
    let broadcast = of_file(&place, "val", "mode = 'broadcast'\nconsumers = 2");
    let config = format!("metrics = {metrics:?}\n{broadcast}");
    let host = Host::start(&pipemill!(), &place, &config);
    let first = waiting(&host.socket, "consumers");
    assert_eq!(what(&first), "2 consumers: nobody has connected to `val`");
    let mut one = host.connect("val");
    let lacks = "more consumers: 1 of 2 consumers of `val`";
    let status = status(&host.socket, "one is there", |channel| {
        channel["waits_for"]["what"] == lacks && channel["ring"]["ready"] == 1
    });
    // Its source has ended, and the channel has not.
    assert_eq!((&status["state"], &status["totals"]["records"]), (&"running".into(), &3.into()));
    let remedy = status["remedies"]["consumer"].as_str().expect("a text");
    assert!(remedy.contains("none was connected, or too few"), "{remedy}");
    let shown = top(&host.socket);
    assert!(shown.contains("val      waiting  ") && shown.contains(lacks), "{shown}");
    assert!(!shown.contains("nothing to do here"), "{shown}");
    assert!(metric(&metrics, "val", "consumers") > 0.0);
    assert!(metric(&metrics, "val", "fifo") == 0.0);
    let mut other = host.connect("val");
    let other = std::thread::spawn(move || consumer::read(&mut other).well());
    assert_eq!(consumer::read(&mut one).well(), records());
    assert_eq!(other.join().expect("reading does not panic"), records());
    drop(one);
    host.wait().with_code(0).says(&["channel `val` ended: 3 records"]);
}

/// A host whose log is read while it runs.
struct LoggingHost {
    child: Child,
    lines: Receiver<Value>,
    /// The lines so far.
    seen: Vec<Value>,
}

impl LoggingHost {
    fn start(command: &mut Command) -> Self {
        let command = command.env(LOG_FORMAT, "json").stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let log = BufReader::new(child.stderr.take().expect("it is piped"));
        let (sender, lines) = queue();
        let parse = |line: String| serde_json::from_str(&line).expect("each line is JSON");
        // Perhaps nobody listens any more.
        let read = move || {
            log.lines().map_while(Result::ok).map(parse).try_for_each(|line| sender.send(line))
        };
        std::thread::spawn(read);
        Self { child, lines, seen: Vec::new() }
    }

    /// The next line that this accepts, as soon as it is logged.
    fn until(&mut self, so: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let line = self.lines.recv_timeout(end.saturating_duration_since(Instant::now()));
            let line = line.unwrap_or_else(|_| panic!("no such line came: {:#?}", self.seen));
            self.seen.push(line.clone());
            if so(&line) {
                return line;
            }
        }
    }

    /// Its whole log, when it has ended with this code.
    fn end(mut self, code: i32) -> Vec<Value> {
        let mut ended = None;
        until("the host ends", || {
            ended = self.child.try_wait().expect("our own child");
            ended.is_some()
        });
        let mut seen = std::mem::take(&mut self.seen);
        seen.extend(self.lines.iter());
        assert_eq!(ended.and_then(|status| status.code()), Some(code), "{seen:#?}");
        seen
    }
}

impl Drop for LoggingHost {
    fn drop(&mut self) {
        // If it is gone already, that is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn message(line: &Value) -> &str {
    line["message"].as_str().expect("each line has a text")
}

#[test]
fn a_channel_that_was_never_read_has_not_ended_well() {
    let place = TestDir::new();
    let config = [of_file(&place, "train", ""), of_file(&place, "val", "")].concat();
    let (report, decoded) = (place.path("report.html"), place.path("decoded"));
    let mut command = host::command(&pipemill!(), &place, &config);
    // The run ends when `train` was read and `val` was decoded.
    let script = "\"$0\" train && while ! [ -e \"$1\" ]; do sleep 0.01; done";
    command.arg("--report").arg(&report).args(["--", "sh", "-c", script, consumer!()]);
    let mut host = LoggingHost::start(command.arg(&decoded).stdout(Stdio::null()));
    let epoch = host.until(|line| message(line).starts_with("channel `val`, epoch 0"));
    assert!(!message(&epoch).contains("nothing to do here"), "{epoch}");
    place.write("decoded", "");
    let lines = host.end(0);
    let line = |starts: &str| {
        let line = lines.iter().find(|line| message(line).starts_with(starts));
        line.unwrap_or_else(|| panic!("no {starts} in {lines:#?}"))
    };
    line("channel `train` ended: 3 records");
    let never = line("channel `val` was never read, nobody has connected to it: 3 rec");
    assert_eq!(never["level"], "warn", "{never}");
    assert!(!message(never).contains("its consumers: "), "{never}");
    let page = std::fs::read_to_string(report).expect("it is written");
    assert!(page.contains("Ended, but val was never read</h1>"), "{page}");
    assert!(page.contains("No consumer has read any of it."), "{page}");
}

#[test]
fn a_consumer_that_has_left_is_waited_for() {
    let place = TestDir::new();
    let host = Host::start(&pipemill!(), &place, &of_file(&place, "train", ""));
    let reader = host.connect("train");
    // It holds the batch, and never says that it is done with it.
    status(&host.socket, "it holds the batch", |channel| channel["ring"]["granted"] == 1);
    drop(reader);
    let status = status(&host.socket, "it has left", |channel| {
        channel["waits_for"]["what"] == "a consumer: all that were connected to `train` have left"
    });
    assert_eq!((&status["state"], &status["ring"]["ready"]), (&"running".into(), &1.into()));
    assert_eq!(host.read("train").well(), records());
    host.wait().with_code(0).says(&["channel `train` ended: 3 records"]);
}

#[test]
fn a_fifo_that_does_not_come_is_named_with_its_epoch() {
    let place = TestDir::new();
    let metrics = place.path("run/metrics.sock");
    let folder = place.make_folder("in");
    let fifo = channel("train", &format!("fifo = {folder:?}, first_epoch = 5, epochs = 1"), "");
    let host = Host::start(&pipemill!(), &place, &format!("metrics = {metrics:?}\n{fifo}"));
    let mut reader = host.connect("train");
    let status = waiting(&host.socket, "fifo");
    let path = place.text("in/train_5");
    assert_eq!(what(&status), format!("the FIFO {path}, which does not exist"));
    assert_eq!((&status["epoch"], &status["object"]), (&5.into(), &Value::Null));
    let shown = top(&host.socket);
    assert!(shown.contains(&format!("for the FIFO {path}")), "{shown}");
    assert!(metric(&metrics, "train", "fifo") > 0.0);
    let pipe = place.fifo("in/train_5");
    let mut pipe = File::options().write(true).open(pipe).expect("the host opens it");
    // The consumer has come, and is silent.
    let status = waiting(&host.socket, "bytes");
    assert_eq!(what(&status), format!("bytes of {path}"));
    pipe.write_all(b"1\n").expect("it is read");
    drop(pipe);
    assert_eq!(consumer::read(&mut reader).well(), [b"1"]);
    drop(reader);
    host.wait().with_code(0);
}

/// The second run in the same folder: an epoch file says that the first one has read five epochs.
#[test]
fn the_error_of_a_fifo_that_never_came_names_its_epoch_and_the_epoch_file() {
    let place = TestDir::new();
    let (folder, state) = (place.make_folder("in"), place.write("state", "5"));
    let fifo = format!("fifo = {folder:?}, epoch_file = {state:?}, open_timeout = '100ms'");
    let config = format!("fail_grace = '0ms'\n{}", channel("train", &fifo, ""));
    let ended = Host::start(&pipemill!(), &place, &config).wait().with_code(66);
    let remedy = format!("the epoch file {} counts the epochs", state.display());
    ended.says(&[
        &format!("info: channel `train` begins with epoch 5: {remedy}"),
        &format!("error: channel `train`, epoch 5, object {}, ", place.text("in/train_5")),
        "did not appear within 100ms",
        &format!("{remedy} that earlier processes have begun; remove it to begin with epoch 0; "),
    ]);
}

/// All epochs were read by an earlier process.
#[test]
fn an_epoch_file_that_leaves_no_epoch_is_told() {
    let place = TestDir::new();
    let (folder, state) = (place.make_folder("in"), place.write("state", "5"));
    let fifo = format!("fifo = {folder:?}, epoch_file = {state:?}, epochs = 5");
    let mut command = host::command(&pipemill!(), &place, &channel("train", &fifo, ""));
    let ended = Process::start(command.args(["--", consumer!(), "train"])).wait().with_code(0);
    ended.says(&["channel `train` begins with epoch 5, and no epoch is left: the epoch file"]);
}

/// However slow the machine is: the lines come, and not before they are due.
#[test]
fn long_waits_are_logged_for_each_channel() {
    let place = TestDir::new();
    let folder = place.make_folder("in");
    let fifo = channel("train", &format!("fifo = {folder:?}"), "");
    let config = format!("{}{fifo}", of_file(&place, "val", ""));
    let mut command = host::command(&pipemill!(), &place, &config);
    let mut host = LoggingHost::start(&mut command);
    // A slow channel may wait for other things before.
    let waits = |line: &Value, channel, reason: &str| {
        line["channel"] == channel && line["waits_for"] == reason
    };
    let (mut train, mut val) = (None, None);
    while train.is_none() || val.is_none() {
        let line = host.until(|line| !line["waits_for"].is_null());
        if waits(&line, "train", "fifo") {
            train = Some(line);
        } else if waits(&line, "val", "consumers") {
            val = Some(line);
        }
    }
    let fifo = format!("the FIFO {}, which does not exist; ", place.text("in/train_0"));
    for (line, channel, what) in
        [(train, "train", &*fifo), (val, "val", "a consumer: nobody has connected to `val`; ")]
    {
        let line = line.expect("the loop has found it");
        assert_eq!(line["level"], "info", "{line}");
        assert!(line["seconds"].as_f64().is_some_and(|seconds| seconds >= 10.0), "{line}");
        let message = message(&line);
        let start = format!("channel `{channel}`: it has waited ");
        let (before, remedy) = message.split_once(what).unwrap_or((message, ""));
        assert!(before.starts_with(&start) && before.ends_with("s for "), "{message}");
        assert!(!remedy.is_empty(), "{message}");
    }
}
