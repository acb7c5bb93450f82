//! `pipemill run`: serves all channels of a configuration, and runs the command that reads them.
//!
//! `channels` builds what the configuration says, and `channel_threads` runs it. `command` is the process beside it,
//! `terminal` what it talks to; `signals` and `reaper` bring what happens, `ending` and `grace` say what
//! follows from it, and `beside` does that. `alone` is a run without a command.

mod channel_threads;
mod channels;
mod command;
mod fail_grace;
mod memory;
mod reaper;
mod serve_only;
mod shutdown;
mod signals;
mod supervise;
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
use crate::telemetry::{Bound, ChannelHandle, HostState, MetricsError, MetricsServer, State};
use pipemill_channel::{Failure, Observer};
use pipemill_decode::{Builtins, Engine};
use pipemill_source::Stop;

pub use channels::{NotReady, PreparedChannel, load, prepare};
pub use command::CommandError;
pub use signals::Signals;

use channel_threads::ChannelThreads;
use command::Command;
use memory::OomKills;
use reaper::Reaper;
use shutdown::Timeouts;
use supervise::Supervisor;
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
    ExceedsLimit(String),
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
    watch: impl FnOnce(&[Arc<ChannelHandle>]) -> Vec<Box<dyn Observer>>,
) -> Result<Ended, StartError> {
    if let Some(why) = memory::exceeds_limit(config) {
        return Err(StartError::ExceedsLimit(why));
    }
    let kills = OomKills::so_far();
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
    let channels = lines.iter().map(|line| line.channel_handle.clone()).collect();
    let host_state = Arc::new(HostState::new(channels, stop.clone()));
    let socket = config.socket.clone().unwrap_or_else(default_socket);
    let servers = open(config, &socket, &host_state, metrics)?;
    for (line, observer) in lines.iter_mut().zip(watch(&host_state.channels)) {
        line.channel.observers.push(observer);
    }
    // A command has the terminal for itself.
    let progress = (command.is_empty() && is_watched()).then(|| progress(&mut lines));
    let mut threads = ChannelThreads::start(lines, stop)?;
    let (code, settle) = if command.is_empty() {
        (serve_only::serve(signals, &mut threads, config.fail_grace), SETTLE)
    } else {
        // Before there can be an orphan.
        let reaper = Reaper::new();
        let terminal = terminal(config);
        let command = Command::start(command, &socket, environment, terminal)
            .inspect_err(|_| threads.halt())?;
        memory::adjust_oom_score(command.pid(), config);
        let timeouts = Timeouts { stop: config.stop_timeout, fail: config.fail_grace };
        let end =
            Supervisor::new(command, signals, &mut threads, terminal, timeouts, reaper).serve();
        (end.code, if end.at_once { Duration::ZERO } else { SETTLE })
    };
    threads.halt();
    let until = Instant::now() + settle;
    while threads.are_at_work() && Instant::now() < until {
        wait::wait(signals, &threads, Some(until));
        threads.hear();
    }
    drop((servers, progress));
    let out_of_memory = kills.since();
    if let Some(what) = &out_of_memory {
        log::error!("{what}");
    }
    Ok(Ended { code, failures: threads.into_failures(), out_of_memory })
}

/// Where others come in; closed when dropped.
type Servers = (Server, Option<MetricsServer>);

/// Lets consumers and observers in.
fn open(
    config: &Config,
    socket: &Path,
    host_state: &Arc<HostState>,
    metrics: Option<Bound>,
) -> Result<Servers, StartError> {
    let rings = host_state.channels.iter().map(|channel| channel.ring.clone()).collect();
    let told = host_state.clone();
    let status: StatusText = Box::new(move || Status::of(&told).json());
    let server = Server::start(socket, config.allow_other_users, rings, Some(status))?;
    let metrics =
        metrics.map(|bound| MetricsServer::start(bound, host_state.clone())).transpose()?;
    let names: Vec<_> = host_state.channels.iter().map(|channel| channel.name.as_str()).collect();
    log::info!("serving {} on {}", names.join(", "), socket.display());
    Ok((server, metrics))
}

/// The command's, unless a channel reads it.
fn terminal(config: &Config) -> Terminal {
    let reads_stdin = |source: &Source| matches!(source, Source::Stdin { .. });
    Terminal::new(!config.channels.iter().any(|channel| reads_stdin(&channel.source)))
}

fn progress(lines: &mut [PreparedChannel]) -> Progress {
    let shown = |line: &mut PreparedChannel| {
        let (total, channel_handle) = (line.channel.source.total(), line.channel_handle.clone());
        let name = Some(channel_handle.name.clone());
        let is_running =
            |channel_handle: &ChannelHandle| matches!(channel_handle.state(), State::Running);
        let look = move || is_running(&channel_handle).then(|| Look::at(&channel_handle.stats));
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
