//! The progress of a command, as a person sees it on a terminal; it appears nowhere else.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use pipemill_tests::nasty::NASTY;
use pipemill_tests::process::finish;
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{PATIENCE, consumer, host, pipemill};

use super::command;

const WINDOW: Winsize = Winsize { ws_row: 24, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };

/// A command whose standard error is a terminal.
struct ProgressReader {
    child: Child,
    text: Arc<Mutex<String>>,
    reading: Option<JoinHandle<()>>,
}

impl ProgressReader {
    fn start(command: &mut Command) -> Self {
        Self::start_on(openpty(Some(&WINDOW), None).expect("the kernel makes terminals"), command)
    }

    /// A command whose standard output is the same terminal.
    fn start_with_output(command: &mut Command) -> Self {
        let terminal = openpty(Some(&WINDOW), None).expect("the kernel makes terminals");
        let output = terminal.slave.try_clone().expect("there are descriptors");
        Self::start_on(terminal, command.stdout(output))
    }

    fn start_on(terminal: OpenptyResult, command: &mut Command) -> Self {
        command.env("TERM", "xterm").env_remove("PIPEMILL_LOG").env_remove("PIPEMILL_LOG_FORMAT");
        let child = command.stdin(Stdio::null()).stderr(terminal.slave).spawn().expect("it starts");
        // The command holds the other end too, and this end would never see its end.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let text = Arc::new(Mutex::new(String::new()));
        let (mut screen, sink) = (File::from(terminal.master), text.clone());
        let reading = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // A terminal ends with an error.
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                sink.lock()
                    .expect("it is whole")
                    .push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        Self { child, text, reading: Some(reading) }
    }

    fn text(&self) -> String {
        self.text.lock().expect("it is whole").clone()
    }

    #[track_caller]
    fn until(&self, words: &str) {
        let end = Instant::now() + PATIENCE;
        while !self.text().contains(words) {
            assert!(Instant::now() < end, "no {words:?} in {:?}", self.text());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Reads to its end: all that was shown.
    #[track_caller]
    fn end(mut self, code: i32) -> String {
        let ended = self.child.wait().expect("our own child");
        self.reading.take().map(JoinHandle::join);
        assert_eq!(ended.code(), Some(code), "{:?}", self.text());
        self.text()
    }
}

impl Drop for ProgressReader {
    fn drop(&mut self) {
        // If it has ended, that is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines of the log: the text after progress that was drawn and wiped out again in the same
/// line.
fn log(text: &str) -> Vec<&str> {
    let lines = text.split('\n').map(|line| line.trim_end_matches('\r'));
    let last = lines.map(|line| line.rsplit(['\r', '\u{1b}']).next().unwrap_or(line));
    // After an escape comes the sequence that wipes the line.
    last.map(|line| line.trim_start_matches("[2K").trim_start_matches("[1A")).collect()
}

const LINES: usize = 3 << 17;

/// 3 MiB.
fn lines(place: &TestDir) {
    place.write("data.txt", b"1234567\n".repeat(LINES));
}

#[test]
fn cat_shows_how_much_of_its_files() {
    let place = TestDir::new();
    lines(&place);
    let (mut out, records) = std::io::pipe().expect("the kernel makes pipes");
    let args = ["cat", "-d", "lines", "--output", "raw", "data.txt"];
    let seen = ProgressReader::start(command(&place, &args).stdout(OwnedFd::from(records)));
    // Nothing is read, so it waits.
    seen.until("/3.00 MiB");
    seen.until(" records, data.txt");
    let mut all = Vec::new();
    out.read_to_end(&mut all).expect("it is a pipe");
    assert_eq!(all.len(), 7 * LINES);
    let said = seen.end(0);
    assert_eq!(log(&said), [""], "nothing stays: {said:?}");
}

#[test]
fn a_count_on_the_same_terminal_has_a_line_of_its_own() {
    let place = TestDir::new();
    let fifo = place.path("in");
    mkfifo(&fifo, Mode::S_IRWXU).expect("it is not there");
    let args = ["cat", "-d", "lines", "--output", "count", "in"];
    let seen = ProgressReader::start_with_output(&mut command(&place, &args));
    let mut input = File::options().write(true).open(&fifo).expect("cat opens it, too");
    input.write_all(b"1\n22\n").expect("cat reads it");
    seen.until("2 records, in");
    drop(input);
    let said = seen.end(0);
    assert_eq!(log(&said), ["records=2 bytes=3", ""], "{said:?}");
    // The terminal wipes the line of the progress (ESC [2K) before the count is printed.
    assert!(said.contains("\u{1b}[2Krecords=2"), "{said:?}");
}

/// The terminal obeys pipemill, and no name from the input.
#[test]
fn names_are_shown_as_they_are_read() {
    let place = TestDir::new();
    place.write(NASTY, b"1234567\n".repeat(LINES));
    let (mut out, records) = std::io::pipe().expect("the kernel makes pipes");
    let args = ["cat", "-d", "lines", "--output", "raw", NASTY];
    let seen = ProgressReader::start(command(&place, &args).stdout(OwnedFd::from(records)));
    seen.until(" records, a\\u{1b}[2J");
    out.read_to_end(&mut Vec::new()).expect("it is a pipe");
    let said = seen.end(0);
    assert!(!said.contains(['\u{9b}', '\u{202e}', '\u{200b}']), "{said:?}");
    assert!(!said.contains("\u{1b}[2J") && !said.contains("\npipemill: forged"), "{said:?}");
}

#[test]
fn feed_shows_a_line_a_channel_and_its_log_above() {
    let place = TestDir::new();
    lines(&place);
    place.write("small.txt.gz", pipemill_tests::inputs::gzip(b"1\n"));
    place.write(
        "c.toml",
        "[[channel]]\nname = 'train'\nsource = { file = 'data.txt', epochs = 1 }\n\
         [[channel]]\nname = 'small'\nsource = { file = 'small.txt.gz', epochs = 2 }\n",
    );
    let args = ["feed", "--config", "c.toml", "--to", "in"];
    let seen = ProgressReader::start(command(&place, &args).stdout(Stdio::null()));
    seen.until("train, epoch 0 [");
    seen.until("small, epoch 0 ");
    seen.until("0 B/3.00 MiB");
    seen.until("waiting for a reader");
    let mut pipe = File::open(place.path("in/train_0")).expect("it is there");
    pipe.read_exact(&mut vec![0; 2 << 20]).expect("there is more");
    seen.until("data.txt");
    assert_eq!(std::fs::read(place.path("in/small_0")).expect("it can be read"), b"1\n");
    seen.until("small, epoch 1 ");
    pipe.read_to_end(&mut Vec::new()).expect("it can be read");
    seen.until("train_0: 3145728 bytes");
    std::fs::read(place.path("in/small_1")).expect("it can be read");
    let said = seen.end(0);
    for line in ["in/train_0: 3145728 bytes", "in/small_0: 2 bytes", "in/small_1: 2 bytes"] {
        let line = format!("pipemill: info: {line}");
        assert!(log(&said).contains(&&*line), "{line}: {said:?}");
    }
}

#[test]
fn a_feeder_that_is_interrupted_leaves_nothing_on_the_screen() {
    let place = TestDir::new();
    lines(&place);
    let args = ["feed", "--from", "data.txt", "--to", "in", "--channel", "train"];
    let seen = ProgressReader::start(command(&place, &args).stdout(Stdio::null()));
    seen.until("waiting for a reader");
    kill(Pid::from_raw(seen.child.id() as i32), Signal::SIGINT).expect("our own child");
    let said = seen.end(130);
    assert_eq!(log(&said), [""], "{said:?}");
}

#[test]
fn run_shows_its_channels_where_no_command_has_the_terminal() {
    let place = TestDir::new();
    lines(&place);
    let config = format!(
        "[[channel]]\nname = 'train'\ndecoder = 'lines'\nsource = {{ file = {:?} }}\n\
         [channel.ring]\nslots = 4\nslot_size = '64KiB'\n",
        place.path("data.txt")
    );
    let seen =
        ProgressReader::start(host::command(&pipemill!(), &place, &config).stdout(Stdio::null()));
    // The ring is full, and nobody reads.
    seen.until("train, epoch 0 [");
    seen.until("/3.00 MiB");
    seen.until(" waiting for a consumer: nobody has connected to `train`, ");
    assert!(!seen.text().contains(" eta "), "nobody knows when it is over: {:?}", seen.text());
    let read = consumer::read(&mut consumer::connect(&place.path("run/host.sock"), "train", None));
    assert_eq!(read.well().len(), LINES);
    let said = seen.end(0);
    let lines = log(&said);
    let has = |words: &str| lines.iter().any(|line| line.starts_with(words));
    assert!(has("pipemill: info: serving train on "), "{said:?}");
    assert!(has("pipemill: info: channel `train` ended: 393216 records in "), "{said:?}");
}

#[test]
fn a_command_has_the_terminal_for_itself() {
    let place = TestDir::new();
    lines(&place);
    let config = format!(
        "[[channel]]\nname = 'train'\ndecoder = 'lines'\nsource = {{ file = {:?} }}\n",
        place.path("data.txt")
    );
    let mut command = host::command(&pipemill!(), &place, &config);
    // For longer than it takes to draw.
    command.args(["--", "sleep", "0.6"]).stdout(Stdio::null());
    let said = ProgressReader::start(&mut command).end(0);
    assert!(said.contains("serving train") && !said.contains('\u{1b}'), "{said:?}");
}

#[test]
fn without_a_terminal_and_for_quiet_users_nothing_is_drawn() {
    let place = TestDir::new();
    lines(&place);
    let args = ["cat", "-d", "lines", "--output", "count", "data.txt"];
    assert_eq!(finish(&mut command(&place, &args)).with_code(0).stderr, "");
    let (mut out, records) = std::io::pipe().expect("the kernel makes pipes");
    // A person who wants to see only warnings and errors.
    let mut quiet = Command::new("sh");
    let script = "PIPEMILL_LOG=warn exec \"$0\" cat -d lines --output raw data.txt";
    quiet.args(["-c", script]).arg(pipemill!()).current_dir(place.folder());
    let seen = ProgressReader::start(quiet.stdout(OwnedFd::from(records)));
    drop(quiet);
    std::thread::sleep(Duration::from_millis(500));
    out.read_to_end(&mut Vec::new()).expect("it is a pipe");
    assert_eq!(seen.end(0), "");
}
