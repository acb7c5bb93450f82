//! `pipemill plugin fetch`: gets the files of the lock file's plugins that are missing or changed.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pipemill_decode::{Digest, read_plugin_file};
use pipemill_lock::{LOCK_FILE, LockFile, LockedPlugin, Origin, Store};
use pipemill_source::s3::Access;

use super::add::{not_changed, not_fetched};
use super::{exit, say};
use crate::s3;

/// Get the files that the lock file names and its folder lacks, from where they were added.
///
/// A file with another SHA-256 than that in the lock file is not kept. The lock file stays as it
/// is.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The lock file
    #[arg(long, value_name = "FILE", default_value = LOCK_FILE)]
    lock: PathBuf,
    #[command(flatten)]
    s3: s3::S3Args,
}

pub(super) fn main(args: &Args) -> Result<ExitCode, ExitCode> {
    let lock = LockFile::read(&args.lock).map_err(not_changed)?;
    let access = args.s3.access();
    let mut failed = None;
    for plugin in &lock.plugins {
        // One that can't be fetched does not keep the others away.
        if let Err(code) = fetch(&lock, plugin, &args.lock, &access) {
            failed = Some(code);
        }
    }
    failed.map_or(Ok(ExitCode::SUCCESS), Err)
}

fn fetch(
    lock: &LockFile,
    plugin: &LockedPlugin,
    path: &Path,
    access: &Access,
) -> Result<(), ExitCode> {
    let (name, file) = (&plugin.name, lock.file_of(plugin));
    let is_there = read_plugin_file(&file).is_ok_and(|bytes| Digest::of(&bytes) == plugin.sha256);
    if is_there {
        say!("{name}: is there");
        return Ok(());
    }
    let origin = Origin::of_locked(&plugin.origin, path).map_err(|why| {
        exit::because(exit::USAGE, format!("{}: the origin of {name}: {why}", path.display()))
    })?;
    let bytes = pipemill_lock::fetch(&origin, access).map_err(not_fetched)?;
    let (found, expected) = (Digest::of(&bytes), plugin.sha256);
    if found != expected {
        let why = format!(
            "{name}: {origin} has the SHA-256 {found}, but {} asks for {expected}: it is another \
             file now; get the right one from its author, or look at the new one and add it with \
             `pipemill plugin add`",
            path.display()
        );
        return Err(exit::because(exit::DATA, why));
    }
    Store::open(path).and_then(|store| store.put(&expected, &bytes)).map_err(not_changed)?;
    say!("{name}: fetched from {origin}");
    Ok(())
}
