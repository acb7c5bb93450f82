//! Child processes: what they say is gathered, none outlives its test, none is waited for for ever.

use std::io::{PipeReader, PipeWriter, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, write};

use crate::PATIENCE;

/// How pipemill writes its log.
pub const LOG_FORMAT: &str = "PIPEMILL_LOG_FORMAT";

/// A child process at work.
pub struct Process {
    child: Child,
    name: String,
    stdout: Option<JoinHandle<Vec<u8>>>,
    stderr: Option<JoinHandle<Vec<u8>>>,
    unread: Option<PipeReader>,
}

/// How a process ended, and what it had said.
#[derive(Debug)]
pub struct Ended {
    /// Exit code, if it ended by itself.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: String,
}

impl Ended {
    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// The same, if it ended with this code.
    ///
    /// # Panics
    /// If it did not.
    #[track_caller]
    pub fn with_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// The same, if its standard error has all of these words.
    ///
    /// # Panics
    /// If one is missing.
    #[track_caller]
    pub fn says(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.stderr.contains(word), "expected {word:?} in {}", self.stderr);
        }
        self
    }
}

impl Process {
    /// Starts it. Its standard input is at its end at once, unless the caller has set another.
    pub fn start(command: &mut Command) -> Self {
        let mut process = Self::spawn(command);
        process.read_stderr();
        process
    }

    /// The same, but nothing fits into the pipe of its standard error before
    /// [`read_stderr`](Self::read_stderr): line ends are in it.
    pub fn start_full(command: &mut Command) -> Self {
        let (reader, writer) = full_pipe();
        let mut process = Self::spawn_with(command, Stdio::from(writer));
        process.unread = Some(reader);
        process
    }

    fn spawn(command: &mut Command) -> Self {
        Self::spawn_with(command, Stdio::piped())
    }

    fn spawn_with(command: &mut Command, stderr: Stdio) -> Self {
        let name = format!("{command:?}");
        // Tests read what people read, unless they ask for something else.
        if command.get_envs().all(|(name, _)| name != LOG_FORMAT) {
            command.env(LOG_FORMAT, "human");
        }
        let child = command.stdout(Stdio::piped()).stderr(stderr).spawn();
        // The command holds the end of a pipe, which must be the child's alone.
        command.stderr(Stdio::null());
        let mut child = child.unwrap_or_else(|error| panic!("{name}: {error}"));
        let stdout = child.stdout.take().map(gather);
        let unread = child.stderr.take().map(|pipe| PipeReader::from(OwnedFd::from(pipe)));
        Self { child, name, stdout, stderr: None, unread }
    }

    /// Reads its standard error from now on.
    pub fn read_stderr(&mut self) {
        self.stderr = self.unread.take().map(gather);
    }

    /// The process's number.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).expect("it is our own child, and was not waited for");
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().expect("our own child").is_none()
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// If it takes longer than anything should.
    pub fn wait(self) -> Ended {
        self.wait_for(PATIENCE)
    }

    /// The same, for what takes longer.
    ///
    /// # Panics
    /// If it takes longer than `patience`.
    pub fn wait_for(mut self, patience: Duration) -> Ended {
        let until = Instant::now() + patience;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("our own child") {
                break status;
            }
            if Instant::now() > until {
                self.end();
                let said = self.said();
                panic!("{} does not end; it said {}", self.name, String::from_utf8_lossy(&said.1));
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let (stdout, stderr) = self.said();
        let stderr = String::from_utf8_lossy(&stderr).into_owned();
        Ended { code: status.code(), signal: status.signal(), stdout, stderr }
    }

    fn said(&mut self) -> (Vec<u8>, Vec<u8>) {
        let text = |thread: Option<JoinHandle<Vec<u8>>>| {
            thread.map_or_else(Vec::new, |thread| thread.join().expect("reading does not panic"))
        };
        (text(self.stdout.take()), text(self.stderr.take()))
    }

    fn end(&mut self) {
        // Where it is gone already, all is well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// A pipe of one page that is full of line ends.
///
/// # Panics
/// If the system gives none.
pub fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, writer) = std::io::pipe().expect("descriptors are left");
    fcntl(&writer, FcntlArg::F_SETPIPE_SZ(1)).expect("a pipe can be made small");
    let flags = |flags| fcntl(&writer, FcntlArg::F_SETFL(flags)).expect("it is our own");
    flags(OFlag::O_NONBLOCK);
    while write(&writer, b"\n").is_ok() {}
    flags(OFlag::empty());
    (reader, writer)
}

/// State and parent of a process, as /proc has them; none where it is gone.
pub fn state(pid: Pid) -> Option<(char, Pid)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before the last bracket may hold anything.
    let mut rest = stat.rsplit_once(") ")?.1.split(' ');
    let state = rest.next()?.chars().next()?;
    Some((state, Pid::from_raw(rest.next()?.parse().ok()?)))
}

/// Starts a process and waits for its end.
pub fn finish(command: &mut Command) -> Ended {
    Process::start(command.stdin(Stdio::null())).wait()
}

fn gather(mut from: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut said = Vec::new();
        // What was said before an error is all there is to know.
        let _ = from.read_to_end(&mut said);
        said
    })
}
