//! A run with a command: signals and failures reach it, and when it has ended nothing of it is left.

use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpid};

use super::channel_threads::ChannelThreads;
use super::command::Command;
use super::reaper::{Reaper, Seen};
use super::shutdown::{Act, Shutdown, Timeouts};
use super::signals::Signals;
use super::terminal::Terminal;
use super::wait::{TICK, wait};
use crate::config::show_duration;

/// A command and what surrounds it.
pub(super) struct Supervisor<'a> {
    command: Command,
    signals: &'a Signals,
    threads: &'a mut ChannelThreads,
    terminal: Terminal,
    timeouts: Timeouts,
    ending: Shutdown,
    reaper: Reaper,
}

/// How the command ended.
pub(super) struct CommandEnd {
    /// Its exit code, or 128 + the signal that ended it; none if it ended because a channel had failed.
    pub(super) code: Option<u8>,
    /// There is no time for anything else.
    pub(super) at_once: bool,
}

impl<'a> Supervisor<'a> {
    pub(super) fn new(
        command: Command,
        signals: &'a Signals,
        threads: &'a mut ChannelThreads,
        terminal: Terminal,
        timeouts: Timeouts,
        reaper: Reaper,
    ) -> Self {
        let ending = Shutdown::new(timeouts);
        Self { command, signals, threads, terminal, timeouts, ending, reaper }
    }

    /// Stays with the command until it and all of its group have ended.
    pub(super) fn serve(mut self) -> CommandEnd {
        let pid = self.command.pid();
        let mut code = None;
        loop {
            while let Some(signal) = self.signals.next() {
                self.obey(signal);
            }
            let seen = if code.is_none() { self.reaper.look(pid) } else { Seen::Nothing };
            match seen {
                Seen::Ended(ended) => {
                    code = Some(ended);
                    self.terminal.take_from(pid);
                    let act = self.ending.leave(Instant::now());
                    self.act(act, Signal::SIGTERM);
                }
                Seen::Stopped => self.stop_with_command(),
                Seen::Nothing => {}
            }
            let now = Instant::now();
            let again = self.reaper.orphans(pid, now);
            if let Some(code) = code
                && (!self.command.has_members() || self.ending.is_given_up(now))
            {
                return self.end(code);
            }
            self.threads.hear();
            self.look_at_channels(now);
            let ticks = code.is_some() || self.ending.is_grace();
            let tick = ticks.then(|| now + TICK);
            let until = [self.ending.until(), again, tick].into_iter().flatten().min();
            wait(self.signals, self.threads, until);
        }
    }

    fn end(self, code: u8) -> CommandEnd {
        // Of a handler, or a shell that tells how its own child ended, too.
        let by_us = [Signal::SIGTERM, Signal::SIGKILL].map(|signal| 128 + signal as u8);
        let ours = self.ending.by_failure() && by_us.contains(&code);
        CommandEnd { code: (!ours).then_some(code), at_once: self.ending.is_killed() }
    }

    fn obey(&mut self, signal: Signal) {
        match signal {
            // The reaper looks each time.
            Signal::SIGCHLD => {}
            Signal::SIGTERM | Signal::SIGINT => {
                let act = self.ending.ask(Instant::now());
                if act == Act::HandOn {
                    let time = show_duration(self.timeouts.stop);
                    log::info!("stopping: {signal}; the command has {time} to end");
                }
                self.act(act, signal);
            }
            Signal::SIGCONT => self.go_on(),
            Signal::SIGTSTP => {
                self.command.signal(signal);
                stop(getpid());
            }
            _ => self.command.signal(signal),
        }
    }

    fn act(&self, act: Act, signal: Signal) {
        match act {
            Act::Nothing => {}
            Act::HandOn | Act::Terminate => {
                // First the command, so that it knows why when its input ends.
                let signal = if act == Act::HandOn { signal } else { Signal::SIGTERM };
                self.command.signal(signal);
                self.threads.drain();
            }
            Act::Kill => {
                log::warn!("the command has not ended: killing it, and all of its group");
                self.command.signal(Signal::SIGKILL);
                self.threads.drain();
            }
        }
    }

    /// What failures and the time bring.
    fn look_at_channels(&mut self, now: Instant) {
        let failed = self.threads.have_failed();
        let unread = if failed { self.threads.unread() } else { 0 };
        if failed && self.ending.fail(unread, now) {
            let time = show_duration(self.timeouts.fail);
            log::info!("a channel has failed: the command has {time} to end by itself");
        }
        let act = self.ending.pass(unread, now);
        if act == Act::Terminate {
            let time = show_duration(self.timeouts.stop);
            log::info!("stopping, because a channel has failed; the command has {time} to end");
        }
        self.act(act, Signal::SIGTERM);
    }

    /// The command was stopped. If that was from its terminal, the shell waits for all of the job to stop.
    fn stop_with_command(&self) {
        if self.terminal.take_from(self.command.pid()) {
            stop(Pid::from_raw(0));
        }
    }

    fn go_on(&self) {
        if self.terminal.is_ours() {
            self.terminal.give(self.command.pid());
        }
        self.command.signal(Signal::SIGCONT);
    }
}

/// Stops this process, or all of its group, until somebody sends SIGCONT. Process 1 can't be stopped, and
/// nobody would wake it: it does as if it had been woken already.
fn stop(whom: Pid) {
    let signal = if getpid() == Pid::from_raw(1) { Signal::SIGCONT } else { Signal::SIGSTOP };
    if let Err(error) = kill(whom, signal) {
        log::warn!("can't stop: {error}");
    }
}
