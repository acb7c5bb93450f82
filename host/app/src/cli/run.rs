//! `pipemill run`: the entrypoint.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use super::config;
use super::exit::{self, Refusal};
use super::outputs::{self, RunOutputs};
use crate::config::Config;
use crate::run::{self, Ended, Signals, StartError};
use crate::sagemaker::{self, Platform};
use crate::telemetry::ChannelHandle;
use pipemill_decode::Builtins;

/// What the platform starts a training container with, behind the entrypoint's own arguments.
const TRAIN: &str = "train";

/// Names the configuration where an image's entrypoint does not.
const CONFIG: &str = "PIPEMILL_CONFIG";

/// Serve all channels of a configuration, and run the command that reads them.
///
/// On SageMaker the channels come from the platform's own files; the configuration, which may be left out there,
/// says what those don't, and overrides what they do, channel by channel. If the job fails, the reason goes to
/// /opt/ml/output/failure. The word `train`, with which the platform starts a container, is accepted.
///
/// The command finds the socket's path in its environment (PIPEMILL_SOCKET). It gets the signals, and all
/// that it leaves behind is ended and waited for: this can be process 1 of a container. Exits with the
/// command's code; 64 if the configuration is wrong, 65 if a channel failed and the command did not, 66 if
/// that was for an input that is not there, 126 or 127 if the command can't be started.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The configuration, or else what the environment variable PIPEMILL_CONFIG names; on SageMaker it may be left out
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    outputs: outputs::OutputArgs,
    /// What SageMaker starts a container with: accepted, and without effect
    #[arg(value_parser = [TRAIN], value_name = "train")]
    train: Option<String>,
    /// The command and its arguments
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub(super) fn main(args: &Args, builtins: Builtins) -> ExitCode {
    let base = sagemaker::base();
    let Refusal { code, why } = match attempt(args, builtins, base.clone()) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(refusal) => refusal,
    };
    if let Some(base) = base {
        sagemaker::report_failure(&base, &why);
    }
    // Failures of channels have been told when they happened, and of its own end the command tells.
    code.into()
}

/// Runs to the end; the error is the exit code, and why, which is told by then.
fn attempt(args: &Args, builtins: Builtins, base: Option<PathBuf>) -> Result<(), Refusal> {
    let tell = |refusal: Refusal| {
        exit::because(refusal.code, &refusal.why);
        refusal
    };
    // First of all, so that no signal comes too early and every thread has them blocked.
    let signals = Signals::take(!args.command.is_empty()).map_err(|error| {
        tell(Refusal { code: exit::SYSTEM, why: format!("can't start: {error}") })
    })?;
    let mut outputs = RunOutputs::new(&args.outputs, &args.command)
        .map_err(|why| tell(Refusal { code: exit::USAGE, why }))?;
    let result = serve(args, builtins, base, &signals, &mut outputs, tell);
    outputs.end(&result);
    result
}

fn serve(
    args: &Args,
    builtins: Builtins,
    base: Option<PathBuf>,
    signals: &Signals,
    outputs: &mut RunOutputs,
    tell: impl Fn(Refusal) -> Refusal,
) -> Result<(), Refusal> {
    let platform = base.map(Platform::read).transpose();
    let platform = platform.map_err(|why| tell(Refusal { code: exit::USAGE, why }))?;
    let config = configuration(args, platform.as_ref()).map_err(&tell)?;
    outputs.configured(&config);
    let command = command(args, platform.is_some());
    let environment = platform.as_ref().map(Platform::environment).unwrap_or_default();
    let watch = |channels: &[Arc<ChannelHandle>]| outputs.watch(channels);
    match run::run(&config, builtins, command, &environment, signals, watch) {
        Ok(ended) => result(&ended, command),
        Err(error) => {
            let code = match &error {
                StartError::NotReady(_) => exit::USAGE,
                StartError::Command(error) => error.code(),
                StartError::Server { .. }
                | StartError::Metrics(_)
                | StartError::ExceedsLimit(_)
                | StartError::System(_)
                | StartError::Engine(_) => exit::SYSTEM,
            };
            Err(tell(Refusal { code, why: error.to_string() }))
        }
    }
}

fn configuration(args: &Args, platform: Option<&Platform>) -> Result<Config, Refusal> {
    let named = || std::env::var_os(CONFIG).filter(|file| !file.is_empty()).map(PathBuf::from);
    match (args.config.clone().or_else(named).as_deref(), platform) {
        (file, Some(platform)) => config::read_over(file, platform),
        (Some(file), None) => config::read(file),
        (None, None) => {
            let why = "which channels? Give --config FILE, or its path in PIPEMILL_CONFIG; only on SageMaker, where /opt/ml/input/config is, the \
                       platform tells them";
            Err(Refusal { code: exit::USAGE, why: why.to_owned() })
        }
    }
}

/// The command, without the word that the platform puts behind it.
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
            // The cause first.
            let memory = ended.out_of_memory.clone();
            let why =
                failures.into_iter().chain(memory).chain([own]).collect::<Vec<_>>().join("\n");
            Err(Refusal { code, why })
        }
        _ if !failures.is_empty() => {
            Err(Refusal { code: exit::of_failures(&ended.failures), why: failures.join("\n") })
        }
        _ => Ok(()),
    }
}
