//! `pipemill run`: the entrypoint.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use super::{config, exit};
use crate::run::{self, StartError};

/// Serve all channels of a configuration, and run the command that reads them.
///
/// The command finds the socket's path in its environment (PIPEMILL_SOCKET). Exits with the command's
/// code; 64 if the configuration is wrong, 65 if a channel failed and the command did not, 126 or 127
/// if the command can't be started.
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
    let config = match config::read(&args.config) {
        Ok(config) => config,
        Err(code) => return code,
    };
    match run::run(&config, &args.command) {
        Ok(ended) => match (ended.code, ended.failures.is_empty()) {
            (Some(code), _) if code != 0 => code.into(),
            (_, false) => exit::DATA.into(),
            _ => ExitCode::SUCCESS,
        },
        Err(error) => {
            let code = match &error {
                StartError::NotReady(_) => exit::USAGE,
                StartError::Command(error) => error.code(),
                StartError::Server(_) | StartError::System(_) | StartError::Engine(_) => {
                    exit::SYSTEM
                }
            };
            exit::because(code, error)
        }
    }
}
