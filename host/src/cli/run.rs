//! `pipemill run`: the entrypoint.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use super::{config, exit};
use crate::run::{self, Signals, StartError};

/// Serve all channels of a configuration, and run the command that reads them.
///
/// The command finds the socket's path in its environment (PIPEMILL_SOCKET). It gets the signals, and all
/// that it leaves behind is ended and waited for: this can be process 1 of a container. Exits with the
/// command's code; 64 if the configuration is wrong, 65 if a channel failed and the command did not, 66 if
/// that was for an input that is not there, 126 or 127 if the command can't be started.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The configuration
    #[arg(long, short, value_name = "FILE")]
    config: PathBuf,
    /// The command and its arguments
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub(super) fn main(args: &Args) -> ExitCode {
    // First of all, so that no signal comes too early and every thread has them blocked.
    let signals = match Signals::take(!args.command.is_empty()) {
        Ok(signals) => signals,
        Err(error) => return exit::because(exit::SYSTEM, format!("can't start: {error}")),
    };
    let config = match config::read(&args.config) {
        Ok(config) => config,
        Err(code) => return code,
    };
    match run::run(&config, &args.command, &signals) {
        Ok(ended) => match ended.code {
            Some(code) if code != 0 => code.into(),
            _ => exit::of_failures(&ended.failures).into(),
        },
        Err(error) => {
            let code = match &error {
                StartError::NotReady(_) => exit::USAGE,
                StartError::Command(error) => error.code(),
                StartError::Server { .. } | StartError::System(_) | StartError::Engine(_) => {
                    exit::SYSTEM
                }
            };
            exit::because(code, error)
        }
    }
}
