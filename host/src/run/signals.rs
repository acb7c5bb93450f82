//! Signals that ask the host to stop: handed on to the command, or, without one, obeyed.

use std::io;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;

use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

/// The signal that ended the run, or 0. Written by the signal thread, read at the end.
static STOPPED_BY: AtomicU8 = AtomicU8::new(0);

/// `si_code` of a signal that the terminal sent: the command, in the same process group, got it too.
const FROM_KERNEL: i32 = 0x80;

/// The signals, blocked in this thread and all that it starts from now on.
pub(super) struct Signals(SignalFd);

impl Signals {
    pub(super) fn take() -> io::Result<Self> {
        let mut set = SigSet::empty();
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
            set.add(signal);
        }
        set.thread_block()?;
        Ok(Self(SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC)?))
    }

    /// Hands signals on to the command, or calls `halt`, in a thread of its own until the process ends.
    pub(super) fn run(
        self,
        command: Option<u32>,
        halt: impl Fn() + Send + 'static,
    ) -> io::Result<()> {
        let hand_on = move || {
            while let Ok(Some(info)) = self.0.read_signal() {
                let Ok(signal) = Signal::try_from(info.ssi_signo as i32) else { continue };
                match command {
                    Some(_) if info.ssi_code == FROM_KERNEL => {}
                    // If it has ended already there is nobody to tell.
                    Some(pid) => drop(kill(Pid::from_raw(pid as i32), signal)),
                    None => {
                        log::info!("stopping: {signal}");
                        STOPPED_BY.store(signal as u8, Ordering::Release);
                        halt();
                    }
                }
            }
        };
        thread::Builder::new().name("signals".into()).spawn(hand_on)?;
        Ok(())
    }
}

/// The signal that made the host stop, if one did.
pub(super) fn stopped_by() -> Option<u8> {
    match STOPPED_BY.load(Ordering::Acquire) {
        0 => None,
        signal => Some(signal),
    }
}
