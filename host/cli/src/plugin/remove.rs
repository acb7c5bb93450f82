//! `pipemill plugin remove`: removes a plugin from the lock file.

use std::path::PathBuf;
use std::process::ExitCode;

use pipemill_lock::{LOCK_FILE, LockFile, Store};

use super::add::not_changed;
use super::say;

/// Remove a plugin from the lock file, and its file from the folder next to it.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Its name, or `NAME@VERSION`
    #[arg(value_name = "NAME")]
    name: String,
    /// The lock file
    #[arg(long, value_name = "FILE", default_value = LOCK_FILE)]
    lock: PathBuf,
}

pub(super) fn main(args: &Args) -> Result<ExitCode, ExitCode> {
    // Without a lock file, no folder is made.
    LockFile::read(&args.lock).map_err(not_changed)?;
    let removed =
        Store::open(&args.lock).and_then(|store| store.remove(&args.name)).map_err(not_changed)?;
    say!("{}: removed from {}", removed.name, args.lock.display());
    Ok(ExitCode::SUCCESS)
}
