//! The thread that writes the log. Only this thread waits for the reader of standard error. The
//! channels and the thread that handles signals never do.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::SigSet;
use nix::unistd::write;

use super::log_lines::{LogLines, NextLine};
use super::unread::{POLL_INTERVAL, Patience};

/// The lines that wait for the thread, and its progress.
pub(super) struct LogWriter {
    state: Mutex<LogQueue>,
    /// A line has come.
    came: Condvar,
    /// All lines are written.
    idle: Condvar,
    /// Lines that were dropped, or could not be written.
    lost: AtomicU64,
}

#[derive(Default)]
struct LogQueue {
    lines: LogLines,
    /// A line that was taken is being written.
    is_writing: bool,
    /// Lines that were taken and written.
    written: u64,
}

impl LogWriter {
    /// Starts the thread. It writes each line to `to` while `above` runs it. `notice` makes a line
    /// of the number of lines that were dropped.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(super) fn start(
        to: impl AsFd + Send + 'static,
        suspend_progress: fn(&mut dyn FnMut()),
        notice: fn(u64) -> String,
    ) -> io::Result<Arc<Self>> {
        let writer = Arc::new(Self {
            state: Mutex::default(),
            came: Condvar::new(),
            idle: Condvar::new(),
            lost: AtomicU64::new(0),
        });
        let of_thread = writer.clone();
        let work = move || {
            loop {
                let NextLine { dropped, text } = of_thread.next();
                let notice = (dropped > 0).then(|| notice(dropped));
                suspend_progress(&mut || {
                    for line in notice.iter().chain([&text]) {
                        if write_all(&to, line.as_bytes()).is_err() {
                            of_thread.lost.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        };
        let (ready, is_ready) = channel();
        let begin = move || {
            // Signals are for the thread that reads them from a descriptor, or end the process. It
            // can't fail: the set is valid.
            let _ = SigSet::all().thread_block();
            let _ = ready.send(());
            work();
        };
        Builder::new().name("log".into()).spawn(begin)?;
        // Fails only if the thread panicked, which it does not.
        let _ = is_ready.recv();
        Ok(writer)
    }

    /// Adds a line. Never waits for the reader of the log.
    pub(super) fn push(&self, is_error: bool, line: String) {
        let dropped = self.lock().lines.push(is_error, line);
        self.lost.fetch_add(dropped, Ordering::Relaxed);
        self.came.notify_one();
    }

    /// Lines that nobody will read: they were dropped, or could not be written.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Waits until all lines are written, unless nobody reads `to`.
    pub(super) fn flush(&self, to: &impl AsFd) {
        let mut patience = Patience::default();
        let mut state = self.lock();
        while state.is_writing || !state.lines.is_empty() {
            if patience.is_over(to.as_fd(), state.written) {
                return;
            }
            let waited = self.idle.wait_timeout(state, POLL_INTERVAL);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits for the next line, and takes it. The line before it is written.
    fn next(&self) -> NextLine {
        let mut state = self.lock();
        state.written += u64::from(std::mem::take(&mut state.is_writing));
        loop {
            if let Some(line) = state.lines.take() {
                state.is_writing = true;
                return line;
            }
            self.idle.notify_all();
            state = self.came.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, LogQueue> {
        // A panic can't leave it half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes all bytes, even if another process has set the pipe so that writes do not wait.
fn write_all(to: &impl AsFd, mut bytes: &[u8]) -> nix::Result<()> {
    while !bytes.is_empty() {
        match write(to, bytes) {
            Ok(0) => return Err(Errno::EIO),
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => {
                let mut fds = [PollFd::new(to.as_fd(), PollFlags::POLLOUT)];
                poll(&mut fds, PollTimeout::NONE).or_else(|error| match error {
                    Errno::EINTR => Ok(0),
                    error => Err(error),
                })?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, Read};

    use nix::fcntl::{FcntlArg, OFlag, fcntl};

    use super::*;

    /// A writer to a pipe of one page, and the pipe's ends.
    fn to_small_pipe() -> (Arc<LogWriter>, PipeReader, Arc<io::PipeWriter>) {
        let (reader, writer) = io::pipe().unwrap();
        fcntl(&writer, FcntlArg::F_SETPIPE_SZ(1)).unwrap();
        let writer = Arc::new(writer);
        let notice = |dropped| format!("{dropped} dropped\n");
        let log = LogWriter::start(writer.clone(), |write| write(), notice).unwrap();
        (log, reader, writer)
    }

    fn read_lines(mut reader: PipeReader, enough: impl Fn(&str) -> bool) -> String {
        let (mut text, mut bytes) = (String::new(), [0; 4096]);
        while !enough(&text) {
            let read = reader.read(&mut bytes).unwrap();
            text += std::str::from_utf8(&bytes[..read]).unwrap();
        }
        text
    }

    #[test]
    fn lines_are_written_in_their_order() {
        let (log, reader, to) = to_small_pipe();
        (0..100).for_each(|n| log.push(false, format!("{n}\n")));
        log.flush(&to);
        let text = read_lines(reader, |text| text.ends_with("99\n"));
        assert!(text.lines().eq((0..100).map(|n| n.to_string())), "{text}");
        assert_eq!(log.lost(), 0);
    }

    #[test]
    fn nobody_waits_for_a_full_pipe_and_what_is_dropped_is_told() {
        for is_nonblocking in [false, true] {
            let (log, reader, to) = to_small_pipe();
            if is_nonblocking {
                fcntl(&to, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
            }
            let (count, text) = (3000, "x".repeat(1000));
            (0..count).for_each(|n| log.push(false, format!("{n} {text}\n")));
            log.push(true, "the last error\n".to_owned());
            // It gives up: nobody reads.
            log.flush(&to);
            let lost = log.lost();
            assert!(lost > 1000 && lost < count, "{lost}");
            let text = read_lines(reader, |text| text.ends_with("the last error\n"));
            let told = text.lines().filter_map(|line| line.strip_suffix(" dropped"));
            let told: Vec<u64> = told.map(|number| number.parse().unwrap()).collect();
            assert_eq!(told.iter().sum::<u64>(), lost, "{told:?}");
            assert_eq!((text.lines().count() - told.len()) as u64, count - lost + 1);
            log.flush(&to);
        }
    }
}
