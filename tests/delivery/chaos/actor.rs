//! A process that plays a part. What it says is kept, line by line, and its ACKs are counted as they come.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pipemill_tests::until;

/// A process at work. It is killed when this is dropped.
pub struct Actor {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

impl Actor {
    /// Starts a process. Lines that begin with `acked` are counted in `acked`.
    pub fn start(command: &mut Command, acked: &Arc<AtomicU64>) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|why| panic!("{command:?}: {why}"));
        let stdout = child.stdout.take().expect("it is piped");
        let lines = Arc::new(Mutex::new(Vec::new()));
        let reader = std::thread::spawn({
            let (lines, acked) = (lines.clone(), acked.clone());
            move || {
                for line in BufReader::new(stdout).lines() {
                    let line = line.expect("what it says is text");
                    let is_ack = line.starts_with("acked");
                    lines.lock().expect("nothing panics while it is locked").push(line);
                    acked.fetch_add(u64::from(is_ack), Ordering::Release);
                }
            }
        });
        Self { child, lines, reader: Some(reader) }
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).expect("it is our own child, and was not waited for");
    }

    /// Whether it has said a line that begins so.
    pub fn has_said(&self, start: &str) -> bool {
        let lines = self.lines.lock().expect("nothing panics while it is locked");
        lines.iter().rev().any(|line| line.starts_with(start))
    }

    /// The port that it has said at the end of its first line.
    pub fn port(&self) -> u16 {
        let lines = self.lines.lock().expect("nothing panics while it is locked");
        let port = lines.first().and_then(|line| line.rsplit(':').next()?.parse().ok());
        port.expect("it says its port first")
    }

    /// Lets it know that it is to end: closes its standard input.
    pub fn tell_to_end(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Kills it. Returns what it has said.
    pub fn kill(mut self) -> Vec<String> {
        self.signal(Signal::SIGKILL);
        self.end();
        self.said()
    }

    /// Waits until it ends by itself. Returns how, and what it has said.
    pub fn ended(mut self) -> (ExitStatus, Vec<String>) {
        let mut status = None;
        until("it ends by itself", || {
            status = self.child.try_wait().expect("it is our own child");
            status.is_some()
        });
        let said = self.said();
        (status.expect("it was waited for"), said)
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn said(&mut self) -> Vec<String> {
        if let Some(reader) = self.reader.take() {
            reader.join().expect("reading does not panic");
        }
        std::mem::take(&mut *self.lines.lock().expect("nothing panics while it is locked"))
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        self.end();
    }
}
