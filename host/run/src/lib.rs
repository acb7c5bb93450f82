//! `pipemill run`: serves all channels of a configuration, and runs the command that reads them.
//!
//! `channels` prepares the channels, `channel_threads` runs them; `check` only checks them. A run
//! without a command is `serve_only`, a run with one is `supervise`: `command` and `terminal` are
//! the command's process and terminal, `signals` and `reaper` bring events, `shutdown` and
//! `fail_grace` decide what to do. `owner` is the process that a private host belongs to. `plan`
//! computes the resources that the host takes, `open_files` handles the limit of open files.
//! `in_process` is a run for tests.
//!
//! - `access`: random access for the process that owns this host.
//! - `account`: the memory account that follows from the plan, for people: the memory that each
//!   channel may take, and whether the container has it.
//! - `channel_task`: the work of a served channel's thread: decode its input, or mix other
//!   channels.
//! - `factory`: makes a channel's source from its configuration.
//! - `fitted_slots`: slots that are as large as a channel's batches.
//! - `indexes`: reads the indexes of a configuration.
//! - `skip_lists`: reads skip lists, and leaves their records out of the objects of an index.
//! - `oom`: processes that the kernel kills for memory.
//! - `processes`: lists processes.
//! - `wait`: waits for the first of several events: a signal, an event of a channel, the end of the
//!   owner, or a deadline.

mod access;
mod account;
mod channel_task;
mod channel_threads;
mod channels;
mod check;
mod command;
mod factory;
mod fail_grace;
mod fitted_slots;
pub mod in_process;
mod indexes;
mod oom;
mod open_files;
mod owner;
mod plan;
mod processes;
mod reaper;
mod serve_only;
mod shutdown;
mod signals;
mod skip_lists;
mod supervise;
mod terminal;
mod wait;

use std::ffi::OsString;
use std::io::{self, ErrorKind::NotFound};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use pipemill_channel::{Failure, Observer};
use pipemill_decode::{Builtins, Engine, EngineError};
use pipemill_delivery::{Checkpoints, LockedFiles};
use pipemill_ring::endpoint::check_folder;
use pipemill_ring::host::{EndpointError, Server, ServerError, StatusText, remove_dead_sockets};
use pipemill_source::Stop;

use pipemill_config::{Channel, Config, Source};
use pipemill_telemetry::log::flush;
use pipemill_telemetry::progress::{Progress, ProgressSnapshot, ShownChannel, is_watched};
use pipemill_telemetry::status::Status;
use pipemill_telemetry::{
    ChannelHandle, HostState, MetricsError, MetricsListener, MetricsServer, WaitLog,
};

pub use access::{AccessLimits, access};
pub use channels::{NotReady, PreparedChannel, prepare};
pub use check::{Tried, TryError, check, try_channel};
pub use command::CommandError;
pub use factory::Sources;
pub use indexes::with_indexes;
pub use owner::Owner;
pub use plan::{ChannelResources, DecoderResources, Machine, ResourcePlan};
pub use signals::Signals;

use channel_threads::ChannelThreads;
use command::Command;
use oom::OomKills;
use open_files::OpenFiles;
use reaper::Reaper;
use shutdown::Timeouts;
use supervise::Supervisor;
use terminal::Terminal;

/// Environment variable of the command with the path of the host's socket.
pub const SOCKET: &str = "PIPEMILL_SOCKET";

/// Time that the host waits for its channels after the command has ended. A channel that is still
/// in a long read or a decoder's call then ends with the process.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// The same time after a signal, which is shorter: the sender waits for the process to end.
const SIGNAL_DRAIN_TIMEOUT: Duration = Duration::from_millis(500);
/// Interval at which signals are checked while the channels are prepared.
const SIGNAL_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The reason why a host could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Channels could not be prepared.
    #[error(transparent)]
    NotReady(#[from] NotReady),
    /// The socket can't be served.
    #[error("{error}{}", remedy(error))]
    Server {
        /// The error of the ring's server.
        #[from]
        error: ServerError,
    },
    /// Metrics can't be served.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// The rings do not fit into the container's memory limit.
    #[error("{0}")]
    ExceedsLimit(String),
    /// Another host writes a checkpoint.
    #[error("{0}")]
    Checkpoint(String),
    /// The command can't be started.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The system can't create a thread or a descriptor.
    #[error("can't start: {0}")]
    System(#[from] io::Error),
    /// The WebAssembly engine can't be created.
    #[error("can't start the WebAssembly engine: {0:#}")]
    Engine(EngineError),
}

/// The advice if the socket can't be created: in containers the root folder often can't be written.
fn remedy(error: &ServerError) -> &'static str {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    match error {
        ServerError::Endpoint(EndpointError::System { error, .. })
            if [PermissionDenied, ReadOnlyFilesystem].contains(&error.kind()) =>
        {
            "; set `socket` to a path in a folder that can be written, such as one on a tmpfs, or \
             XDG_RUNTIME_DIR to such a folder"
        }
        _ => "",
    }
}

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    /// The command's exit code, or 128 + the signal that ended the command or the run. `None` if
    /// all records were consumed, or a failure of a channel ended the command.
    pub code: Option<u8>,
    /// The failures of the channels that failed.
    pub failures: Vec<Failure>,
    /// A message, if the kernel killed processes because of the container's memory limit, with what
    /// to do.
    pub out_of_memory: Option<String>,
}

impl Ended {
    /// A run that was ended with this code before anything was started.
    pub fn early(code: u8) -> Self {
        Self { code: Some(code), failures: Vec::new(), out_of_memory: None }
    }
}

/// Serves the channels until the command has ended or, without a command, until all records are
/// consumed. Must be called by the main thread.
///
/// `command` and its arguments are empty if there is none; `environment` is added to its
/// environment. `signals` must be taken for a run with or without a command, as this one is.
/// `owner` is the process that this host belongs to, if it is a private host; it has no command
/// then. `watch` gets the channels before they begin, and returns an observer for each channel, or
/// none at all.
///
/// # Errors
/// See [`StartError`]. Nothing is left running in that case.
pub fn run(
    config: &Config,
    builtins: Builtins,
    command: &[OsString],
    environment: &[(String, String)],
    signals: &Signals,
    owner: Option<&Owner>,
    watch: impl FnOnce(&[Arc<ChannelHandle>]) -> Vec<Box<dyn Observer>>,
) -> Result<Ended, StartError> {
    let plan = ResourcePlan::of(config, builtins, Machine::here());
    if let Some(why) = plan.exceeds_limit() {
        return Err(StartError::ExceedsLimit(why));
    }
    let checkpoints = LockedFiles::new(config).map_err(StartError::Checkpoint)?;
    let kills = OomKills::now();
    let files = OpenFiles::raise();
    let stop = Stop::new()?;
    // The socket listens before all is ready, so an early request waits and is not refused.
    let bind = |listen| MetricsListener::bind(listen, config.allow_other_users);
    let metrics = config.metrics.as_ref().map(bind);
    let metrics = metrics.transpose()?;
    let engine = Engine::of_environment(builtins).map_err(StartError::Engine)?;
    let (own, its_plan, its_stop) = (config.clone(), plan.clone(), stop.clone());
    let work = move || prepare(&own, &its_plan, &engine, &its_stop);
    let mut channels = match unless_stopped(signals, owner, work)? {
        Ok(channels) => channels?,
        Err(code) => return Ok(Ended::early(code)),
    };
    let handles = channels.iter().map(|prepared| prepared.handle.clone()).collect();
    let host = Arc::new(HostState::new(handles, stop.clone()));
    let (socket, servers) = start_servers(config, &host, metrics, owner.is_some())?;
    for prepared in &mut channels {
        prepared.handle.set_total_size(prepared.task.total_size());
    }
    for (prepared, observer) in channels.iter_mut().zip(watch(&host.channels)) {
        prepared.task.observers().push(observer);
    }
    // The terminal belongs to the command, or to the owner, so there is no progress display.
    let progress =
        (command.is_empty() && owner.is_none() && is_watched()).then(|| progress(&mut channels));
    let served = channels.iter().map(|one| (one.handle.ring.clone(), one.delivery.clone()));
    let checkpoints = Checkpoints::start(checkpoints, config, served)?;
    let waits = WaitLog::start(host.channels.clone())?;
    let consumers_first = owner.is_some_and(Owner::has_consumers_first);
    let mut threads = ChannelThreads::start(channels, stop, consumers_first)?;
    if let Some(owner) = owner {
        owner.announce(&socket);
    }
    let (code, drain) = if command.is_empty() {
        let code = serve_only::serve(signals, &mut threads, config.fail_grace, owner);
        (code, if code.is_some() { SIGNAL_DRAIN_TIMEOUT } else { DRAIN_TIMEOUT })
    } else {
        // This comes before the command, so that no orphan is missed.
        let reaper = Reaper::new();
        let terminal = terminal(config);
        // The log is flushed before the command's own output.
        flush();
        let command = Command::start(command, &socket, environment, terminal, files)
            .inspect_err(|_| threads.stop())?;
        oom::adjust_oom_score(command.pid(), &plan);
        let timeouts = Timeouts { stop: config.stop_timeout, fail: config.fail_grace };
        let end =
            Supervisor::new(command, signals, &mut threads, terminal, timeouts, reaper).serve();
        (end.code, if end.killed { Duration::ZERO } else { DRAIN_TIMEOUT })
    };
    drop(waits);
    threads.stop();
    let deadline = Instant::now() + drain;
    while threads.are_running() && Instant::now() < deadline {
        wait::wait(signals, &threads, None, Some(deadline));
        threads.receive_events();
    }
    drop((servers, progress));
    // ACKs that have arrived by now count.
    drop(checkpoints);
    let out_of_memory = kills.message();
    if let Some(message) = &out_of_memory {
        log::error!("{message}");
    }
    Ok(Ended { code, failures: threads.into_failures(), out_of_memory })
}

/// Runs this work on a separate thread, so that a signal or the owner's end can end the run
/// meanwhile: opening a pipe, compiling a plugin, or listing objects may take long. Returns the
/// result of the work, or the exit code of a run that was ended. In the second case the thread ends
/// with the process.
///
/// # Errors
/// The thread can't be created, or the work panicked.
pub fn unless_stopped<T: Send + 'static>(
    signals: &Signals,
    owner: Option<&Owner>,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Result<T, u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::Builder::new().name("pipemill-prepare".into()).spawn(move || {
        // Nobody receives the result after a signal.
        let _ = sender.send(work());
    })?;
    loop {
        let done = receiver.recv_timeout(SIGNAL_POLL_INTERVAL);
        if let Some(signal) = signals.next_stop() {
            log::info!("stopping before anything was started: {signal}");
            return Ok(Err(128 + signal as u8));
        }
        if owner.is_some_and(Owner::has_ended) {
            return Ok(Err(0));
        }
        match done {
            Ok(done) => return Ok(Ok(done)),
            Err(RecvTimeoutError::Timeout) => {}
            // The thread has panicked, which was reported already.
            Err(RecvTimeoutError::Disconnected) => {
                return Err(io::Error::other("preparing the run failed"));
            }
        }
    }
}

/// The server of the rings, and that of the metrics. They close when dropped.
type Servers = (Server, Option<MetricsServer>);

/// Starts to accept consumers and requests for metrics. Also returns the socket's path.
fn start_servers(
    config: &Config,
    host: &Arc<HostState>,
    metrics: Option<MetricsListener>,
    is_private: bool,
) -> Result<(PathBuf, Servers), StartError> {
    let default = config.socket.is_none();
    let mut socket = config.socket.clone().unwrap_or_else(default_socket);
    if is_private {
        if let Some(folder) = default_socket().parent() {
            remove_dead_sockets(folder, is_of_running_process);
        }
        if default {
            socket = private_socket(&socket);
        }
    }
    if default && let Some(folder) = socket.parent() {
        // Everybody can guess the path, also if other users may connect.
        check_folder(folder).map_err(ServerError::Endpoint)?;
    }
    let mut server = start_server(config, &socket, host);
    if let Err(ServerError::Endpoint(EndpointError::InUse { pid, .. })) = &server
        && default
    {
        let private = private_socket(&socket);
        log::info!(
            "process {pid} serves {}, so this host serves {}; without a command, consumers and \
             `pipemill top` need it in {SOCKET}",
            socket.display(),
            private.display()
        );
        server = start_server(config, &private, host);
        socket = private;
    }
    let server = server?;
    let metrics = metrics.map(|bound| MetricsServer::start(bound, host.clone())).transpose()?;
    let names: Vec<_> = host.channels.iter().map(|channel| channel.name.as_str()).collect();
    log::info!("serving {} on {}", names.join(", "), socket.display());
    Ok((socket, (server, metrics)))
}

fn start_server(
    config: &Config,
    socket: &Path,
    host: &Arc<HostState>,
) -> Result<Server, ServerError> {
    let rings = host.channels.iter().map(|channel| channel.ring.clone()).collect();
    let of_status = host.clone();
    let status: StatusText = Box::new(move || Status::of(&of_status.snapshot()).json());
    Server::start(socket, &plan::server_config(config), rings, Some(status))
}

/// A path next to the default one that no other process uses.
fn private_socket(default: &Path) -> PathBuf {
    default.with_file_name(format!("pipemill-{}.sock", std::process::id()))
}

/// The process id in the name of a private host's socket; `None` if the name is another one.
pub fn process_of_socket(name: &str) -> Option<u32> {
    let pid = name.strip_prefix("pipemill-").and_then(|name| name.strip_suffix(".sock"));
    pid.and_then(|pid| pid.parse().ok())
}

/// Whether a name is that of a [`private_socket`] whose process runs.
fn is_of_running_process(name: &str) -> bool {
    let pid = process_of_socket(name);
    // A process that has ended has no program, even before its parent has waited for it.
    let program = |pid| std::fs::read_link(format!("/proc/{pid}/exe"));
    pid.is_some_and(|pid| !matches!(program(pid), Err(error) if error.kind() == NotFound))
}

/// The terminal for the command, unless a channel reads standard input.
fn terminal(config: &Config) -> Terminal {
    let reads_stdin = |source: &Source| matches!(source, Source::Stdin { .. });
    let mut decoded = config.channels.iter().flat_map(Channel::decoded);
    Terminal::new(!decoded.any(|channel| reads_stdin(&channel.source)))
}

fn progress(channels: &mut [PreparedChannel]) -> Progress {
    let shown = |prepared: &mut PreparedChannel| {
        let (total, handle) = (prepared.task.total_size(), prepared.handle.clone());
        let name = Some(handle.name.clone());
        let snapshot = move || ProgressSnapshot::of_run(&handle.snapshot());
        ShownChannel { name, total, snapshot: Box::new(snapshot) }
    };
    Progress::of(channels.iter_mut().map(shown).collect())
}

/// The socket's path if the configuration names none, in a folder that belongs to this user alone.
pub fn default_socket() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty()) {
        Some(dir) => PathBuf::from(dir).join("pipemill/pipemill.sock"),
        None => format!("/tmp/pipemill-{}/pipemill.sock", nix::unistd::getuid()).into(),
    }
}
