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
mod terminal;
mod wait;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pipemill_ring::host::{EndpointError, Server, ServerError, StatusText};

use crate::config::{Config, Source};
use crate::telemetry::progress::{Look, Progress, Shown, is_watched};
use crate::telemetry::status::Status;
use crate::telemetry::{Bound, MetricsError, MetricsServer, Overview, State, Watched};
use pipemill_channel::Failure;
use pipemill_decode::{Builtins, Engine};
use pipemill_source::Stop;

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
    /// Where metrics are served.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
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
    Engine(pipemill_decode::EngineError),
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
/// called by the main thread, and `signals` taken with or without a command as it is here. `watch` is given the
/// channels before they begin.
///
/// # Errors
/// See [`StartError`]; nothing is left running then.
pub fn run(
    config: &Config,
    builtins: Builtins,
    command: &[OsString],
    environment: &[(String, String)],
    signals: &Signals,
    watch: impl FnOnce(&[Arc<Watched>]),
) -> Result<Ended, StartError> {
    if let Some(why) = memory::too_tight(config) {
        return Err(StartError::TooTight(why));
    }
    let kills = Kills::so_far();
    let stop = Stop::new()?;
    // Whoever asks before all is ready has to wait, and is not refused.
    let metrics =
        config.metrics.as_ref().map(|listen| Bound::bind(listen, config.allow_other_users));
    let metrics = metrics.transpose()?;
    let engine = Engine::of_environment(builtins).map_err(StartError::Engine)?;
    let mut lines = prepare(config, &engine, &stop)?;
    if let Some(signal) = signals.next_ending() {
        log::info!("stopping before anything was started: {signal}");
        let code = Some(128 + signal as u8);
        return Ok(Ended { code, failures: Vec::new(), out_of_memory: None });
    }
    let channels = lines.iter().map(|line| line.watched.clone()).collect();
    let overview = Arc::new(Overview::new(channels, stop.clone()));
    let socket = config.socket.clone().unwrap_or_else(default_socket);
    let doors = open(config, &socket, &overview, metrics)?;
    watch(&overview.channels);
    // A command has the terminal for itself.
    let progress = (command.is_empty() && is_watched()).then(|| progress(&mut lines));
    let mut mills = Mills::start(lines, stop)?;
    let (code, settle) = if command.is_empty() {
        (alone::serve(signals, &mut mills, config.fail_grace), SETTLE)
    } else {
        // Before there can be an orphan.
        let reaper = Reaper::new();
        let terminal = terminal(config);
        let command = Command::start(command, &socket, environment, terminal)
            .inspect_err(|_| mills.halt())?;
        memory::weigh(command.pid(), config);
        let patience = Patience { stop: config.stop_timeout, fail: config.fail_grace };
        let end = Beside::new(command, signals, &mut mills, terminal, patience, reaper).serve();
        (end.code, if end.at_once { Duration::ZERO } else { SETTLE })
    };
    mills.halt();
    let until = Instant::now() + settle;
    while mills.are_at_work() && Instant::now() < until {
        wait::wait(signals, &mills, Some(until));
        mills.hear();
    }
    drop((doors, progress));
    let out_of_memory = kills.since();
    if let Some(what) = &out_of_memory {
        log::error!("{what}");
    }
    Ok(Ended { code, failures: mills.into_failures(), out_of_memory })
}

/// Where others come in; closed when dropped.
type Doors = (Server, Option<MetricsServer>);

/// Lets consumers and observers in.
fn open(
    config: &Config,
    socket: &Path,
    overview: &Arc<Overview>,
    metrics: Option<Bound>,
) -> Result<Doors, StartError> {
    let rings = overview.channels.iter().map(|channel| channel.ring.clone()).collect();
    let told = overview.clone();
    let status: StatusText = Box::new(move || Status::of(&told).json());
    let server = Server::start(socket, config.allow_other_users, rings, Some(status))?;
    let metrics = metrics.map(|bound| MetricsServer::start(bound, overview.clone())).transpose()?;
    let names: Vec<_> = overview.channels.iter().map(|channel| channel.name.as_str()).collect();
    log::info!("serving {} on {}", names.join(", "), socket.display());
    Ok((server, metrics))
}

/// The command's, unless a channel reads it.
fn terminal(config: &Config) -> Terminal {
    let reads_stdin = |source: &Source| matches!(source, Source::Stdin { .. });
    Terminal::new(!config.channels.iter().any(|channel| reads_stdin(&channel.source)))
}

fn progress(lines: &mut [Line]) -> Progress {
    let shown = |line: &mut Line| {
        let (total, watched) = (line.channel.source.total(), line.watched.clone());
        let name = Some(watched.name.clone());
        let is_running = |watched: &Watched| matches!(watched.state(), State::Running);
        let look = move || is_running(&watched).then(|| Look::at(&watched.meter));
        Shown { name, total, look: Box::new(look) }
    };
    Progress::of(lines.iter_mut().map(shown).collect())
}

/// Where consumers connect if the configuration does not say: a folder that is this user's alone.
pub fn default_socket() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty()) {
        Some(dir) => PathBuf::from(dir).join("pipemill/pipemill.sock"),
        None => format!("/tmp/pipemill-{}/pipemill.sock", nix::unistd::getuid()).into(),
    }
}
