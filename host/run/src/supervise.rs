//! A run with a command. Signals are forwarded to the command, and a failure of a channel ends it.
//! When the command has ended, no process of its group is left.

use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpid};

use super::channel_threads::ChannelThreads;
use super::command::Command;
use super::reaper::{CommandEvent, Reaper, reap_command};
use super::shutdown::{Action, Shutdown, Timeouts};
use super::signals::Signals;
use super::terminal::Terminal;
use super::wait::{POLL_INTERVAL, wait};
use pipemill_config::show_duration;

/// A running command, and everything that is needed to supervise it.
pub(super) struct Supervisor<'a> {
    command: Command,
    signals: &'a Signals,
    threads: &'a mut ChannelThreads,
    terminal: Terminal,
    timeouts: Timeouts,
    shutdown: Shutdown,
    reaper: Reaper,
}

/// How the command ended.
pub(super) struct CommandEnd {
    /// Its exit code, or 128 + the signal that ended it. `None` if it was ended because a channel
    /// failed.
    pub(super) code: Option<u8>,
    /// Whether it got SIGKILL: if so, the host ends at once, too.
    pub(super) killed: bool,
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
        let shutdown = Shutdown::new(timeouts);
        Self { command, signals, threads, terminal, timeouts, shutdown, reaper }
    }

    /// Runs until the command and all of its process group have ended.
    pub(super) fn serve(mut self) -> CommandEnd {
        let pid = self.command.pid();
        let mut code = None;
        loop {
            while let Some(signal) = self.signals.next() {
                self.handle_signal(signal);
            }
            let event =
                if code.is_none() { self.reaper.check_command(pid) } else { CommandEvent::None };
            match event {
                CommandEvent::Ended(ended) => {
                    code = Some(ended);
                    self.terminal.take_from(pid);
                    let action = self.shutdown.command_ended(Instant::now());
                    self.apply(action, Signal::SIGTERM);
                }
                CommandEvent::Stopped => self.stop_with_command(),
                CommandEvent::None => {}
            }
            let now = Instant::now();
            let (reap_again, is_alone) = match code {
                None => (self.reaper.reap_orphans(pid, now), false),
                Some(_) => self.reaper.reap_after_command(pid, now),
            };
            if let Some(code) = code
                && (is_alone || self.shutdown.is_given_up(now))
            {
                reap_command(pid);
                return self.end(code);
            }
            self.threads.receive_events();
            self.check_channels(now);
            let polls = code.is_some() || self.shutdown.is_grace();
            let poll = polls.then(|| now + POLL_INTERVAL);
            let deadline = [self.shutdown.deadline(), reap_again, poll];
            wait(self.signals, self.threads, None, deadline.into_iter().flatten().min());
        }
    }

    fn end(self, code: u8) -> CommandEnd {
        // A command that handles the signal returns the same codes, and so does a shell whose child
        // was ended by it.
        let by_us = [Signal::SIGTERM, Signal::SIGKILL].map(|signal| 128 + signal as u8);
        let ours = self.shutdown.by_failure() && by_us.contains(&code);
        CommandEnd { code: (!ours).then_some(code), killed: self.shutdown.is_killed() }
    }

    fn handle_signal(&mut self, signal: Signal) {
        match signal {
            // `serve` checks the command in each round.
            Signal::SIGCHLD => {}
            Signal::SIGTERM | Signal::SIGINT => {
                let action = self.shutdown.request(Instant::now());
                if action == Action::Forward {
                    let time = show_duration(self.timeouts.stop);
                    log::info!("stopping: {signal}; the command has {time} to end");
                }
                self.apply(action, signal);
            }
            Signal::SIGCONT => self.resume(),
            Signal::SIGTSTP => {
                self.command.signal(signal);
                stop(getpid());
            }
            _ => self.command.signal(signal),
        }
    }

    fn apply(&self, action: Action, signal: Signal) {
        match action {
            Action::None => {}
            Action::Forward | Action::Terminate => {
                // The signal is sent first: the command then knows why its input ends.
                let signal = if action == Action::Forward { signal } else { Signal::SIGTERM };
                self.command.signal(signal);
                self.threads.drain();
            }
            Action::Kill => {
                log::warn!("the command has not ended: killing it, and all of its group");
                self.command.signal(Signal::SIGKILL);
                self.threads.drain();
            }
        }
    }

    /// Acts on failures of channels, and on deadlines that have passed.
    fn check_channels(&mut self, now: Instant) {
        let failed = self.threads.have_failed();
        let unacked = if failed { self.threads.unacked() } else { 0 };
        if failed && self.shutdown.channel_failed(unacked, now) {
            let time = show_duration(self.timeouts.fail);
            log::info!("a channel has failed: the command has {time} to end by itself");
        }
        let action = self.shutdown.check_deadlines(unacked, now);
        if action == Action::Terminate {
            let time = show_duration(self.timeouts.stop);
            log::info!("stopping, because a channel has failed; the command has {time} to end");
        }
        self.apply(action, Signal::SIGTERM);
    }

    /// Stops the host after the command was stopped, if the terminal did it: the shell waits until
    /// the whole job has stopped.
    fn stop_with_command(&self) {
        if self.terminal.take_from(self.command.pid()) {
            stop(Pid::from_raw(0));
        }
    }

    fn resume(&self) {
        if self.terminal.is_ours() {
            self.terminal.give(self.command.pid());
        }
        self.command.signal(Signal::SIGCONT);
    }
}

/// Stops `target`, which is this process or, with 0, its whole group, until SIGCONT arrives.
/// Process 1 can't be stopped, so it sends SIGCONT instead: the command continues as if it had been
/// stopped and woken.
fn stop(target: Pid) {
    let signal = if getpid() == Pid::from_raw(1) { Signal::SIGCONT } else { Signal::SIGSTOP };
    if let Err(error) = kill(target, signal) {
        log::warn!("can't stop: {error}");
    }
}
