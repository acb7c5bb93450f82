//! A child process that prints lines: they arrive through one channel for all children, and no
//! child outlives the test.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Stdio};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The sender of a line: each output of each process has its own number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Speaker(pub usize);

/// A line that was printed. No text: nothing more will come, because every process that could print
/// has ended.
pub struct Line {
    pub speaker: Speaker,
    pub text: Option<String>,
}

/// A child process.
pub struct Child {
    process: std::process::Child,
    /// Its standard output.
    pub speaker: Speaker,
}

impl Child {
    /// Starts it. Its standard input is empty.
    pub fn start(command: &mut Command, speaker: Speaker, lines: &Sender<Line>) -> Self {
        let name = format!("{command:?}");
        let process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut process = process.unwrap_or_else(|error| panic!("{name}: {error}"));
        listen(process.stdout.take(), speaker, lines, Valve::default());
        Self { process, speaker }
    }

    /// Reads its standard error too, if it is piped: through a pipe of one page, while the valve is open.
    pub fn listen_to_stderr(&mut self, speaker: Speaker, lines: &Sender<Line>) -> Valve {
        let pipe = self.process.stderr.take();
        let fd = pipe.as_ref().map(|pipe| {
            fcntl(pipe, FcntlArg::F_SETPIPE_SZ(1)).expect("a pipe can be made small");
            pipe.as_raw_fd()
        });
        let valve = Valve { fd, ..Valve::default() };
        listen(pipe, speaker, lines, valve.clone());
        valve
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.process.id() as i32)
    }

    pub fn signal(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    /// Its exit code, or 128 and the signal's number, as in a shell. None while it runs.
    pub fn try_wait(&mut self) -> Option<i32> {
        let status = self.process.try_wait().expect("it is our own child");
        status.map(code)
    }

    /// Kills it. Whether it still ran until then.
    pub fn kill(&mut self) -> bool {
        let ran = self.try_wait().is_none();
        if ran {
            self.signal(Signal::SIGKILL);
            self.process.wait().expect("it is our own child");
        }
        ran
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sends a signal to a process, which may have ended.
pub fn send(pid: Pid, signal: Signal) {
    let sent = kill(pid, signal);
    assert!(matches!(sent, Ok(()) | Err(Errno::ESRCH)), "{signal} to {pid}: {sent:?}");
}

fn code(status: std::process::ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().or_else(|| Some(128 + status.signal()?)).expect("it has ended")
}

/// Whether what a process says is read.
#[derive(Clone, Default)]
pub struct Valve {
    state: Arc<(Mutex<ValveState>, Condvar)>,
    /// The pipe that is read.
    fd: Option<RawFd>,
}

#[derive(Default)]
struct ValveState {
    is_shut: bool,
    /// The reader pauses there.
    holds: bool,
}

impl Valve {
    pub fn is_shut(&self) -> bool {
        self.lock().is_shut
    }

    pub fn open(&self) {
        self.lock().is_shut = false;
        self.state.1.notify_all();
    }

    /// Reads no more, and fills the pipe with line ends. Its process has not ended, so the pipe is there.
    pub fn shut(&self) {
        self.lock().is_shut = true;
        let Some(fd) = self.fd else { return };
        let mut options = File::options();
        let pipe = options
            .write(true)
            .custom_flags(OFlag::O_NONBLOCK.bits())
            .open(format!("/proc/self/fd/{fd}"));
        let mut pipe = pipe.expect("the reader has it open");
        loop {
            // The bytes that the reader takes before it pauses have to be filled again.
            let held = self.lock().holds;
            while pipe.write(b"\n").is_ok() {}
            if held {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn pass(&self) {
        let mut state = self.lock();
        while state.is_shut {
            state.holds = true;
            state = self.state.1.wait(state).expect("nothing panics while it is locked");
        }
        state.holds = false;
    }

    fn lock(&self) -> MutexGuard<'_, ValveState> {
        self.state.0.lock().expect("nothing panics while it is locked")
    }
}

fn listen(
    from: Option<impl Read + Send + 'static>,
    speaker: Speaker,
    lines: &Sender<Line>,
    valve: Valve,
) {
    let Some(from) = from else { return };
    let lines = lines.clone();
    std::thread::spawn(move || {
        for text in BufReader::new(from).split(b'\n').map_while(Result::ok) {
            valve.pass();
            let text = Some(String::from_utf8_lossy(&text).into_owned());
            // An error means that the test has ended, and nobody listens.
            let _ = lines.send(Line { speaker, text });
        }
        let _ = lines.send(Line { speaker, text: None });
    });
}
