//! Processes that tests start. Each is this test binary again, with the test `child::child` and a
//! role in its environment. It reports in lines on standard error, each with its time in front.

use std::fs::File;
use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};

use nix::libc;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::socket::SockType;
use nix::unistd::{Uid, geteuid, setuid};
use pipemill_ring::endpoint::Endpoint;
use pipemill_ring::host::{BatchEvent, Observer, Ring, Server, ServerConfig};
use pipemill_ring::reader::{Event, Reader, ReaderError};

use crate::setup::{RECORDS, check, config, fields, grant};

/// Linux's id of a user that owns nothing.
const NOBODY: Uid = Uid::from_raw(65_534);
const ROLE: &str = "RING_TEST_ROLE";
const SOCKET: &str = "RING_TEST_SOCKET";

/// A process. When this is dropped, the process is killed and waited for.
pub struct Process {
    pub child: Child,
    pub lines: Lines<BufReader<ChildStderr>>,
}

impl Process {
    pub fn start(role: &str, socket: &Path) -> Process {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["child::child", "--exact", "--ignored", "--nocapture"])
            .env(ROLE, role)
            .env(SOCKET, socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        Process { child, lines }
    }

    /// The next line, and its time in nanoseconds. `None` at the end of the process.
    pub fn line(&mut self) -> Option<(u128, String)> {
        let line = self.lines.next()?.unwrap();
        let time = line.split_once(' ').and_then(|(time, text)| Some((time.parse().ok()?, text)));
        let (time, text) = time.unwrap_or_else(|| panic!("the child says: {line}"));
        Some((time, text.into()))
    }

    pub fn kill(&mut self) {
        // This fails only if the process has ended already.
        let _ = self.child.kill();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
    }
}

/// Nanoseconds of a clock that all processes share and that nobody sets.
fn now() -> u128 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec, which the call fills.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    assert_eq!(failed, 0);
    time.tv_sec as u128 * 1_000_000_000 + time.tv_nsec as u128
}

fn say(text: &str) {
    // This is a single write, so that a kill can't cut it in two.
    let line = format!("{} {text}\n", now());
    std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap();
}

#[test]
#[ignore = "the process that other tests start"]
fn child() {
    let role = std::env::var(ROLE).expect("started by a test");
    let socket = std::env::var_os(SOCKET).expect("started by a test");
    match role.as_str() {
        "consume" => consume(socket.as_ref()),
        "serve" => serve(socket.as_ref()),
        "serve with few files" => serve_with_few_files(socket.as_ref()),
        "other user" => connect_as_other_user(socket.as_ref()),
        "squatter" => listen_as_other_user(socket.as_ref()),
        other => panic!("no role {other}"),
    }
}

/// Reads to the end and reports each batch that it gets and ACKs. It holds one batch while it reads
/// the next.
fn consume(socket: &Path) {
    let mut reader = Reader::connect(socket, "train", Some(3)).unwrap();
    let mut held = None;
    loop {
        match reader.next().unwrap() {
            Event::Batch(batch) => {
                check(&batch);
                let what =
                    format!("{} {} {}", batch.number(), batch.first_record(), batch.records());
                say(&format!("got {what}"));
                say(&format!("acking {what}"));
                batch.ack();
                say(&format!("acked {what}"));
                held = Some(batch);
            }
            Event::EpochEnd(end) => say(&format!("epoch {}", end.batches)),
            Event::StreamEnd => break,
        }
    }
    drop(held);
    say("end");
}

/// A host that serves three batches and then waits for the signal to end. It reports when the
/// grants of all three are sent.
fn serve(socket: &Path) {
    let ring = Ring::new(config()).unwrap();
    ring.set_schema(fields()).unwrap();
    let (third_grant, granted) = channel();
    ring.set_observer(Box::new(GrantCounter { count: AtomicU32::new(0), third_grant }));
    let _server =
        Server::start(socket, &ServerConfig::default(), vec![ring.clone()], None).unwrap();
    for batch in 0..3 {
        grant(&ring, 0, batch * RECORDS, RECORDS).unwrap();
    }
    say("ready");
    granted.recv().unwrap();
    // An event comes before its message is sent, but under the same lock as this.
    ring.status();
    say("granted");
    loop {
        std::thread::park();
    }
}

/// A host that may open 256 files, not as root. It serves batches without end, and opens sources on
/// commands from standard input.
fn serve_with_few_files(socket: &Path) {
    setrlimit(Resource::RLIMIT_NOFILE, 256, 256).unwrap();
    if geteuid().is_root() {
        setuid(NOBODY).unwrap();
    }
    let ring = Ring::new(config()).unwrap();
    ring.set_schema(fields()).unwrap();
    let server = ServerConfig { allow_other_users: true, ..ServerConfig::default() };
    let status = Box::new(|| vec![b'x'; 2000]);
    let _server = Server::start(socket, &server, vec![ring.clone()], Some(status)).unwrap();
    std::thread::spawn(move || {
        for batch in 0.. {
            grant(&ring, 0, batch * RECORDS, RECORDS).unwrap();
        }
    });
    say("ready");
    for _ in std::io::stdin().lines() {
        let opened: Result<Vec<_>, _> = (0..100).map(|_| File::open("/dev/null")).collect();
        say(&format!("opened {:?}", opened.map(|files| files.len())));
    }
}

/// Reports the third grant to a consumer.
struct GrantCounter {
    count: AtomicU32,
    third_grant: Sender<()>,
}

impl Observer for GrantCounter {
    fn on_event(&self, event: BatchEvent) {
        if matches!(event, BatchEvent::Granted { .. })
            && self.count.fetch_add(1, Ordering::Relaxed) == 2
        {
            self.third_grant.send(()).unwrap();
        }
    }
}

/// Another user who has made the path first.
fn listen_as_other_user(socket: &Path) {
    setuid(NOBODY).unwrap();
    let _endpoint = Endpoint::bind(socket, SockType::SeqPacket, true).unwrap();
    say("listening");
    loop {
        std::thread::park();
    }
}

fn connect_as_other_user(socket: &Path) {
    setuid(NOBODY).unwrap();
    match Reader::connect(socket, "train", None) {
        Ok(_) => say("welcomed"),
        Err(ReaderError::Refused(message)) => say(&format!("refused {message}")),
        Err(error) => say(&format!("failed {error}")),
    }
}
