//! `pipemill run`: serves the channels of a configuration. It is the entrypoint of a container.

use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use pipemill_decode::Builtins;
use pipemill_types::Accepted;

use super::config;
use super::exit::{self, Refusal};
use super::outputs::{self, RunOutputs};
use pipemill_config::Config;
use pipemill_config::sagemaker::{self, Platform};
use pipemill_run::{self as run, Ended, NotReady, Owner, Signals, StartError};
use pipemill_telemetry::ChannelHandle;
use pipemill_telemetry::log::write_in_thread;

/// The word that SageMaker adds after the entrypoint's own arguments.
const TRAIN: &str = "train";

/// The variable for the path of the configuration, if the option `--config` is not given.
const CONFIG: &str = "PIPEMILL_CONFIG";

/// The configuration if nothing names one.
const DEFAULT_FILE: &str = "pipemill.toml";

/// Serve all channels of a configuration, and run the command that reads them.
///
/// On SageMaker the platform's own files describe the channels. The configuration completes and
/// overrides them, channel by channel; there it may be left out. If the job fails, the reason is
/// written to /opt/ml/output/failure. The word `train`, with which SageMaker starts a container, is
/// accepted.
///
/// The command finds the socket's path in its environment (PIPEMILL_SOCKET). Signals are passed on
/// to it. When it has ended, the processes that it started are ended and waited for: so this can be
/// process 1 of a container.
///
/// Exits with the command's code; with 64 if the configuration is wrong; if the command succeeded
/// but a channel failed, with 65, or 66 if an input does not exist; with 126 or 127 if the command
/// can't be started.
#[derive(Clone, clap::Args)]
#[command(after_help = "Examples:
  pipemill run -- python train.py
  pipemill run --config pipemill.toml --report run.html -- torchrun --nproc-per-node 4 train.py")]
pub(super) struct Args {
    /// The configuration [default: the environment variable PIPEMILL_CONFIG, else ./pipemill.toml];
    /// on SageMaker it may be left out
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Go on after the batch that this state names: a file with what `Stream.state_dict()` in
    /// Python returned, as JSON, or with a list of these
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// What may differ from what it was when the state was taken: `objects`, `decoder`, `options`,
    /// `schema`, with commas between them
    #[arg(long, value_name = "WHAT", value_delimiter = ',', requires = "resume")]
    accept: Vec<String>,
    /// Serve for the process PID alone, which is the parent: end when it ends or closes standard
    /// input. Standard output says in a line of JSON where consumers connect, or why they can't.
    /// This is how `pipemill.open()` in Python starts a host
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    owner: Option<i32>,
    /// Decode nothing before the consumers are connected that the first batch needs: they bring a
    /// state, at which the channel begins
    #[arg(long, requires = "owner")]
    consumers_first: bool,
    #[command(flatten)]
    outputs: outputs::OutputArgs,
    /// The configuration, in place of --config. The word `train`, with which SageMaker starts a
    /// container, has no effect
    #[arg(value_name = "FILE")]
    words: Vec<OsString>,
    /// The command and its arguments
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub(super) fn main(args: &Args, builtins: Builtins) -> ExitCode {
    // A private host has everything that it needs in its configuration.
    let base = if args.owner.is_none() { sagemaker::base() } else { None };
    let refusal = match attempt(args, builtins, base.clone()) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(refusal) => refusal,
    };
    if let Some(base) = base {
        sagemaker::report_failure(&base, &refusal.text());
    }
    // Nothing is reported here: channels' failures were reported when they happened.
    refusal.code.into()
}

/// Runs until the end. An error is reported already: it has the exit code and the reason.
fn attempt(args: &Args, builtins: Builtins, base: Option<PathBuf>) -> Result<(), Refusal> {
    let owner = args.owner.map(|pid| Owner::new(pid, args.consumers_first));
    let report = |refusal: Refusal| report(owner.as_ref(), refusal);
    // This comes first: no signal may arrive earlier, and all threads must have signals blocked.
    let signals = Signals::take(!args.command.is_empty()).map_err(|error| {
        report(Refusal::new(exit::SYSTEM, format_args!("can't start: {error}")))
    })?;
    // From here on, no thread waits for the reader of the log.
    write_in_thread();
    if let Some(base) = &base {
        sagemaker::clear_failure(base);
    }
    let mut outputs = RunOutputs::new(&args.outputs, &args.command)
        .map_err(|why| report(Refusal::new(exit::USAGE, why)))?;
    let result = serve(args, builtins, base, &signals, owner.as_ref(), &mut outputs);
    outputs.end(&result);
    result
}

fn serve(
    args: &Args,
    builtins: Builtins,
    base: Option<PathBuf>,
    signals: &Signals,
    owner: Option<&Owner>,
    outputs: &mut RunOutputs,
) -> Result<(), Refusal> {
    let report = |refusal: Refusal| report(owner, refusal);
    let own = args.clone();
    let read = run::unless_stopped(signals, owner, move || read(&own, base));
    let read = read.map_err(|error| report(Refusal::new(exit::SYSTEM, error)))?;
    let (config, platform) = match read {
        Ok(read) => read.map_err(&report)?,
        Err(code) => return result(&Ended::early(code), &[]),
    };
    outputs.set_config(&config);
    let command = command(args, platform.is_some());
    let environment = platform.as_ref().map(sagemaker::environment).unwrap_or_default();
    let watch = |channels: &[Arc<ChannelHandle>]| outputs.watch(channels);
    match run::run(&config, builtins, command, &environment, signals, owner, watch) {
        Ok(ended) => result(&ended, command),
        Err(error) => {
            let code = match &error {
                StartError::NotReady(_) => exit::USAGE,
                StartError::Command(error) => error.code(),
                StartError::Server { .. }
                | StartError::Metrics(_)
                | StartError::ExceedsLimit(_)
                | StartError::Checkpoint(_)
                | StartError::System(_)
                | StartError::Engine(_) => exit::SYSTEM,
            };
            Err(report(match error {
                StartError::NotReady(NotReady { faults, of_sources: true }) if owner.is_some() => {
                    Refusal { code: exit::DATA, why: faults }
                }
                StartError::NotReady(not_ready) => Refusal { code, why: not_ready.faults },
                error => Refusal::new(code, error),
            }))
        }
    }
}

/// The work of a run: its configuration, with the states from which it resumes, and the platform's
/// description.
fn read(args: &Args, base: Option<PathBuf>) -> Result<(Config, Option<Platform>), Refusal> {
    let refused = |why| Refusal { code: exit::USAGE, why };
    let platform = base.map(Platform::read).transpose();
    let platform = platform.map_err(|why| Refusal::new(exit::USAGE, why))?;
    let mut config = configuration(args, platform.as_ref())?;
    if let Some(file) = &args.resume {
        let accepted =
            Accepted::of_words(&args.accept).map_err(|why| refused(vec![format!("--{why}")]))?;
        pipemill_delivery::resume_from(file, accepted, &mut config).map_err(refused)?;
    }
    Ok((config, platform))
}

/// Reports why a run can't start: to its owner, or as any command does.
fn report(owner: Option<&Owner>, refusal: Refusal) -> Refusal {
    let kind = match refusal.code {
        exit::SYSTEM => "host",
        exit::DATA => "source",
        _ => "refused",
    };
    match owner {
        Some(owner) => owner.refuse(kind, &refusal.why),
        None => {
            exit::because_all(refusal.code, &refusal.why);
        }
    }
    refusal
}

fn configuration(args: &Args, platform: Option<&Platform>) -> Result<Config, Refusal> {
    let given = args.config.clone().or(positional(args)?).or_else(named_configuration);
    match (given.as_deref(), platform) {
        (file, Some(platform)) => config::read_over(file, platform),
        (Some(file), None) => config::read(file),
        (None, None) if Path::new(DEFAULT_FILE).exists() => {
            log::info!("the configuration is {DEFAULT_FILE} in this folder");
            config::read(Path::new(DEFAULT_FILE))
        }
        (None, None) => {
            let why = "which channels? Give FILE or --config FILE, or its path in PIPEMILL_CONFIG, \
                       or put a pipemill.toml into this folder (`pipemill init SOURCE` writes \
                       one); only on SageMaker, where /opt/ml/input/config is, the platform tells \
                       them";
            Err(Refusal::new(exit::USAGE, why))
        }
    }
}

/// The configuration that the environment names.
fn named_configuration() -> Option<PathBuf> {
    std::env::var_os(CONFIG).filter(|file| !file.is_empty()).map(PathBuf::from)
}

/// The configuration of a run whose command line names none, if there is one.
pub(super) fn default_configuration() -> Option<PathBuf> {
    let in_folder = || Some(PathBuf::from(DEFAULT_FILE)).filter(|file| file.exists());
    named_configuration().or_else(in_folder)
}

/// The configuration that is given without `--config`.
///
/// # Errors
/// The words don't name a configuration: they are a command without `--` before it.
fn positional(args: &Args) -> Result<Option<PathBuf>, Refusal> {
    let words = match args.words.as_slice() {
        [words @ .., last] if last == TRAIN => words,
        words => words,
    };
    let (options, command) = match words {
        [] => return Ok(None),
        [file] if args.config.is_none() && is_configuration(Path::new(file)) => {
            return Ok(Some(file.into()));
        }
        [file, command @ ..] if args.config.is_none() && is_configuration(Path::new(file)) => {
            (format!("{} ", file.to_string_lossy()), command)
        }
        command => {
            let config = args.config.as_ref();
            (config.map_or_else(String::new, |file| format!("-c {} ", file.display())), command)
        }
    };
    let command: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    let command = command.join(" ");
    let why = format!(
        "`{command}` is no configuration; if it is the command to run, write `--` before it: \
         pipemill run {options}-- {command}"
    );
    Err(Refusal::new(exit::USAGE, why))
}

/// Whether a word is the path of a configuration: it ends in `.toml`, or it is a file that is not
/// executable.
fn is_configuration(path: &Path) -> bool {
    let is_program = |metadata: &Metadata| metadata.permissions().mode() & 0o111 != 0;
    path.extension().is_some_and(|extension| extension == "toml")
        || path.metadata().is_ok_and(|metadata| metadata.is_file() && !is_program(&metadata))
}

/// The command without the word that SageMaker adds after it.
fn command(args: &Args, on_platform: bool) -> &[OsString] {
    match args.command.as_slice() {
        [command @ .., last] if on_platform && !command.is_empty() && last == TRAIN => {
            log::info!("`{TRAIN}`, which the platform adds to the command, is left out");
            command
        }
        all => all,
    }
}

fn result(ended: &Ended, command: &[OsString]) -> Result<(), Refusal> {
    let failures: Vec<_> = ended.failures.iter().map(ToString::to_string).collect();
    match ended.code {
        Some(code) if code != 0 => {
            let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
            let own = match words.as_slice() {
                [] => format!("ended by signal {}", code.saturating_sub(128)),
                words => format!("the command `{}` ended with code {code}", words.join(" ")),
            };
            // The cause comes first.
            let memory = ended.out_of_memory.clone();
            let why = failures.into_iter().chain(memory).chain([own]).collect();
            Err(Refusal { code, why })
        }
        _ if !failures.is_empty() => {
            Err(Refusal { code: exit::of_failures(&ended.failures), why: failures })
        }
        _ => Ok(()),
    }
}
