//! `pipemill run`: serves all channels of a configuration, and runs the command that reads them.
//!
//! `channels` builds what the configuration says, `command` is the process beside it, `signals` what
//! is done when somebody wants to stop it all.

mod channels;
mod command;
mod signals;
mod summary;
mod verdict;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use pipemill_ring::host::{Ring, Server, ServerError};

use crate::channel::{Failure, Outcome, Totals};
use crate::config::Config;
use crate::decode::Engine;
use crate::ring::{RingSink, report};
use crate::stop::Stop;

pub use channels::{Line, NotReady, load, prepare};
pub use command::CommandError;

/// Environment variable with the socket's path.
pub const SOCKET: &str = "PIPEMILL_SOCKET";

/// Why a host could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration names what is not there.
    #[error(transparent)]
    NotReady(#[from] NotReady),
    /// The socket.
    #[error("{0}")]
    Server(#[from] ServerError),
    /// The command.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The machine.
    #[error("can't start: {0}")]
    System(#[from] std::io::Error),
    /// The engine.
    #[error("can't start the WebAssembly engine: {0:#}")]
    Engine(wasmtime::Error),
}

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    /// The command's exit code, or 128 + the signal that ended it or the run.
    pub code: Option<u8>,
    /// The channels that failed.
    pub failures: Vec<Failure>,
}

/// Serves the channels until the command has ended, or, without one, until all has been consumed.
///
/// # Errors
/// See [`StartError`]; nothing is left running then.
pub fn run(
    config: &Config,
    command: &[OsString],
    environment: &[(String, String)],
) -> Result<Ended, StartError> {
    // First of all, so that every thread has the signals blocked.
    let signals = signals::Signals::take()?;
    let stop = Stop::new()?;
    let engine = Engine::of_environment().map_err(StartError::Engine)?;
    let lines = prepare(config, &engine, &stop)?;
    let rings: Vec<_> = lines.iter().map(|line| line.ring.clone()).collect();
    let socket = config.socket.clone().unwrap_or_else(default_socket);
    let server = Server::start(&socket, config.allow_other_users, rings.clone())?;
    let names: Vec<_> = rings.iter().map(|ring| ring.config().channel.as_str()).collect();
    log::info!("serving {} on {}", names.join(", "), socket.display());
    let threads = start(lines)?;
    let halt = {
        let (stop, rings) = (stop.clone(), rings.clone());
        move || {
            stop.ask();
            rings.iter().for_each(|ring| ring.stop());
        }
    };
    let code = if command.is_empty() {
        signals.run(None, halt.clone())?;
        // Ends by itself: a channel's thread waits until all it granted was consumed.
        None
    } else {
        let mut command = match command::Command::start(command, &socket, environment) {
            Ok(command) => command,
            Err(error) => {
                halt();
                join(threads);
                return Err(error.into());
            }
        };
        signals.run(Some(command.pid()), halt.clone())?;
        let code = command.wait();
        halt();
        Some(code)
    };
    let failures = join(threads);
    drop(server);
    let code = code.or(signals::stopped_by().map(|signal| 128 + signal));
    Ok(Ended { code, failures })
}

/// Where consumers connect if the configuration does not say: a folder that is this user's alone.
pub fn default_socket() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty()) {
        Some(dir) => PathBuf::from(dir).join("pipemill/pipemill.sock"),
        None => format!("/tmp/pipemill-{}/pipemill.sock", nix::unistd::getuid()).into(),
    }
}

type Threads = Vec<thread::JoinHandle<Option<Failure>>>;

fn start(lines: Vec<Line>) -> std::io::Result<Threads> {
    let start = |line: Line| {
        let name = format!("mill-{}", line.channel.name);
        thread::Builder::new().name(name).spawn(move || serve(line))
    };
    lines.into_iter().map(start).collect()
}

fn join(threads: Threads) -> Vec<Failure> {
    threads.into_iter().filter_map(|thread| thread.join().ok().flatten()).collect()
}

/// One channel from its start to the last ACK.
fn serve(line: Line) -> Option<Failure> {
    let Line { channel, ring, source } = line;
    let name = channel.name.clone();
    let started = std::time::Instant::now();
    let mut sink = RingSink::new(ring.clone(), channel.plugin.name());
    let mut totals = Totals::default();
    let outcome = channel.run(&mut sink, &mut totals);
    log::info!("{}", summary::line(&name, &source, &totals, started.elapsed(), &outcome));
    let failure = match outcome {
        Outcome::Failed(failure) => {
            log::error!("{failure}");
            ring.fail(report(&failure));
            Some(failure)
        }
        Outcome::Ended => {
            ring.end_stream();
            None
        }
        Outcome::Stopped => return None,
    };
    wait_until_consumed(&ring);
    failure
}

fn wait_until_consumed(ring: &Arc<Ring>) {
    // Ends also when the run is stopped.
    ring.wait_drained(None);
}
