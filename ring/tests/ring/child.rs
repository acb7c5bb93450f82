//! Processes that tests start: this test binary once more, at the test `child::child`, with a role
//! in its environment. They speak in lines on standard error, each with a time in front.

use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use nix::unistd::{Uid, setuid};
use pipemill_ring::host::{Ring, Server};
use pipemill_ring::reader::{Event, Reader, ReaderError};

use crate::setup::{RECORDS, check, config, fields, grant};

const ROLE: &str = "RING_TEST_ROLE";
const SOCKET: &str = "RING_TEST_SOCKET";

/// A process, killed and waited for when dropped.
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
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        Process { child, lines }
    }

    /// The next line and its time in nanoseconds.
    pub fn line(&mut self) -> Option<(u128, String)> {
        let line = self.lines.next()?.unwrap();
        let time = line.split_once(' ').and_then(|(time, text)| Some((time.parse().ok()?, text)));
        let (time, text) = time.unwrap_or_else(|| panic!("the child says: {line}"));
        Some((time, text.into()))
    }

    pub fn kill(&mut self) {
        // Fails only where it has ended by itself.
        let _ = self.child.kill();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
    }
}

fn say(text: &str) {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    // In one write, so that a kill can't cut it in two.
    let line = format!("{time} {text}\n");
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
        "nobody" => nobody(socket.as_ref()),
        other => panic!("no role {other}"),
    }
}

/// Reads to the end and says what it has seen and ACKed. Holds one batch more than it reads.
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

/// A host that grants three batches and then waits for its end.
fn serve(socket: &Path) {
    let ring = Ring::new(config()).unwrap();
    ring.set_schema(fields()).unwrap();
    let _server = Server::start(socket, false, vec![ring.clone()], None).unwrap();
    for batch in 0..3 {
        grant(&ring, 0, batch * RECORDS, RECORDS).unwrap();
    }
    say("ready");
    loop {
        let held = ring.status().granted;
        if held == 3 {
            say("granted");
        }
        while ring.status().granted == held {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

/// Another user tries to connect.
fn nobody(socket: &Path) {
    setuid(Uid::from_raw(65_534)).unwrap();
    match Reader::connect(socket, "train", None) {
        Ok(_) => say("welcomed"),
        Err(ReaderError::Refused(message)) => say(&format!("refused {message}")),
        Err(error) => say(&format!("failed {error}")),
    }
}
