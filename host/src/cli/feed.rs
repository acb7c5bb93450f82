//! `pipemill feed`: plays the platform's Pipe-mode agent, with files.

use std::path::PathBuf;
use std::process::ExitCode;

use super::exit;
use crate::feed::{Feed, FeedError};

/// Feed files through FIFOs, an epoch each, as the platform's Pipe-mode agent does.
///
/// For each epoch N: removes the FIFO of the epoch before, makes DIR/NAME_N, waits for a reader and
/// writes the files back to back. A reader that closes early goes on to the next epoch.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Files, or folders whose files are taken by name
    #[arg(long, required = true, num_args = 1.., value_name = "PATH")]
    from: Vec<PathBuf>,
    /// The folder for the FIFOs; made if it is not there
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// The channel's name
    #[arg(long, value_name = "NAME")]
    channel: String,
    /// How many epochs; without it, until it is stopped
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    epochs: Option<u32>,
}

pub(super) fn main(args: Args) -> ExitCode {
    let feed = Feed { from: args.from, to: args.to, channel: args.channel, epochs: args.epochs };
    match feed.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(FeedError::Source(error)) => {
            let object = error.object.as_deref().unwrap_or("");
            let code = if error.missing { exit::MISSING } else { exit::SYSTEM };
            exit::because(code, format!("{object}: {error}; {}", error.remedy))
        }
        Err(FeedError::Io { path, doing, error }) => {
            exit::because(exit::SYSTEM, format!("{}: can't {doing}: {error}", path.display()))
        }
    }
}
