//! `pipemill run`: serves all channels of a configuration, and runs the command that reads them.
//!
//! `channels` builds what the configuration says, and `mills` runs it. `command` is the process beside it,
//! `terminal` what it talks to; `signals` and `reaper` bring what happens, `ending` and `grace` say what
//! follows from it, and `beside` does that. `alone` is a run without a command.

mod alone;
mod beside;
mod channels;
mod command;
mod ending;
mod grace;
mod memory;
mod mills;
mod reaper;
mod signals;
mod summary;
mod terminal;
mod verdict;
mod wait;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pipemill_ring::host::{EndpointError, Server, ServerError};

use crate::channel::Failure;
use crate::config::{Config, Source};
use crate::decode::Engine;
use crate::stop::Stop;

pub use channels::{Line, NotReady, load, prepare};
pub use command::CommandError;
pub use signals::Signals;

use beside::Beside;
use command::Command;
use ending::Patience;
use memory::Kills;
use mills::Mills;
use reaper::Reaper;
use terminal::Terminal;

/// Environment variable with the socket's path.
pub const SOCKET: &str = "PIPEMILL_SOCKET";

/// Channels whose command has ended are waited for so long. One that is in the middle of a long read or a
/// decoder's call ends with the process.
const SETTLE: Duration = Duration::from_secs(5);

/// Why a host could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration names what is not there.
    #[error(transparent)]
    NotReady(#[from] NotReady),
    /// The socket.
    #[error("{error}{}", remedy(error))]
    Server {
        /// Why.
        #[from]
        error: ServerError,
    },
    /// The container's memory.
    #[error("{0}")]
    TooTight(String),
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

/// Containers often have a root that can't be written, or a user who may not.
fn remedy(error: &ServerError) -> &'static str {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    match error {
        ServerError::Endpoint(EndpointError::System { error, .. })
            if [PermissionDenied, ReadOnlyFilesystem].contains(&error.kind()) =>
        {
            "; set `socket` to a path in a folder that can be written, such as one on a tmpfs"
        }
        _ => "",
    }
}

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    /// The command's exit code, or 128 + the signal that ended it or the run. None if neither was: all was
    /// consumed, or a failure ended the command.
    pub code: Option<u8>,
    /// The channels that failed.
    pub failures: Vec<Failure>,
    /// That the kernel killed meanwhile, because of the container's memory limit, and what to do.
    pub out_of_memory: Option<String>,
}

/// Serves the channels until the command has ended, or, without one, until all has been consumed. To be
/// called by the main thread, and `signals` taken with or without a command as it is here.
///
/// # Errors
/// See [`StartError`]; nothing is left running then.
pub fn run(
    config: &Config,
    command: &[OsString],
    environment: &[(String, String)],
    signals: &Signals,
) -> Result<Ended, StartError> {
    if let Some(why) = memory::too_tight(config) {
        return Err(StartError::TooTight(why));
    }
    let kills = Kills::so_far();
    let stop = Stop::new()?;
    let engine = Engine::of_environment().map_err(StartError::Engine)?;
    let lines = prepare(config, &engine, &stop)?;
    let rings: Vec<_> = lines.iter().map(|line| line.ring.clone()).collect();
    if let Some(signal) = signals.next_ending() {
        log::info!("stopping before anything was started: {signal}");
        let code = Some(128 + signal as u8);
        return Ok(Ended { code, failures: Vec::new(), out_of_memory: None });
    }
    let socket = config.socket.clone().unwrap_or_else(default_socket);
    let server = Server::start(&socket, config.allow_other_users, rings.clone())?;
    let names: Vec<_> = rings.iter().map(|ring| ring.config().channel.as_str()).collect();
    log::info!("serving {} on {}", names.join(", "), socket.display());
    let mut mills = Mills::start(lines, stop)?;
    let patience = Patience { stop: config.stop_timeout, fail: config.fail_grace };
    let (code, settle) = if command.is_empty() {
        (alone::serve(signals, &mut mills, patience.fail), SETTLE)
    } else {
        let reads_stdin = |source: &Source| matches!(source, Source::Stdin { .. });
        let terminal =
            Terminal::new(!config.channels.iter().any(|channel| reads_stdin(&channel.source)));
        // Before there can be an orphan.
        let reaper = Reaper::new();
        let command = Command::start(command, &socket, environment, terminal)
            .inspect_err(|_| mills.halt())?;
        memory::weigh(command.pid(), config);
        let end = Beside::new(command, signals, &mut mills, terminal, patience, reaper).serve();
        (end.code, if end.at_once { Duration::ZERO } else { SETTLE })
    };
    mills.halt();
    let until = Instant::now() + settle;
    while mills.are_at_work() && Instant::now() < until {
        wait::wait(signals, &mills, Some(until));
        mills.hear();
    }
    drop(server);
    let out_of_memory = kills.since();
    if let Some(what) = &out_of_memory {
        log::error!("{what}");
    }
    Ok(Ended { code, failures: mills.into_failures(), out_of_memory })
}

/// Where consumers connect if the configuration does not say: a folder that is this user's alone.
pub fn default_socket() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty()) {
        Some(dir) => PathBuf::from(dir).join("pipemill/pipemill.sock"),
        None => format!("/tmp/pipemill-{}/pipemill.sock", nix::unistd::getuid()).into(),
    }
}
