//! `pipemill index …`: makes, shows and checks the index of a source.
//!
//! - `check`: compares an index with the objects that there are now.
//! - `make`: reads all objects of a source, and writes their index.
//! - `progress`: what a build that was killed has saved.
//! - `show`: shows what an index knows.

mod check;
mod make;
mod progress;
mod show;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use pipemill_decode::Builtins;
use pipemill_index::{Index, IndexError, Storage, Version};
use pipemill_source::s3::{Selection, Settings};
use pipemill_source::{Location, SourceError};

use super::{exit, s3};

/// Read all objects of a source once, and write their index; or show or check an index.
///
/// For each object, the index has its name, its identity, its size, the number of its records, and
/// places every few MiB at which decoding can begin. It is Parquet: pyarrow and DuckDB read it. A
/// channel whose source is an index lists nothing, learns nothing, knows its length, and refuses
/// objects that have changed. Exits with 64 if the command line is wrong, 65 if something could not
/// be decoded or differs, 66 if an input does not exist.
#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:
  pipemill index train/ --out train.index
  pipemill index s3://bucket/train/ -d csv -o header=true --out train.index
  pipemill index s3://bucket/train/ --out s3://bucket/train.index
  pipemill index show train.index
  pipemill index check train.index"
)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    make: make::MakeArgs,
}

#[derive(Subcommand)]
enum Action {
    /// Show what an index knows: its objects, its records, the decoder and the fields
    Show {
        /// The index: a file, or an address in S3
        index: OsString,
        /// Print a line for each object: its records, its size, its places, its name
        #[arg(long)]
        objects: bool,
        #[command(flatten)]
        s3: s3::S3Args,
    },
    /// Make one index of the indexes of all parts, in any order
    Merge {
        /// The indexes of the parts
        #[arg(required = true, value_name = "INDEX")]
        parts: Vec<OsString>,
        /// The file of the whole index, or its address in S3
        #[arg(long, value_name = "FILE")]
        out: OsString,
        #[command(flatten)]
        s3: s3::S3Args,
    },
    /// Compare an index with the objects that there are now. Prints a line for each difference;
    /// exits with 65 if there are any
    Check {
        /// The index: a file, or an address in S3
        index: OsString,
        /// The folder that the files lie in, if they were moved
        #[arg(long, value_name = "FOLDER")]
        root: Option<PathBuf>,
        #[command(flatten)]
        s3: s3::S3Args,
    },
}

pub(super) fn main(args: Args, builtins: Builtins) -> ExitCode {
    let done = match args.action {
        None => make::main(args.make, builtins),
        Some(Action::Show { index, objects, s3 }) => show::main(&index, objects, &s3),
        Some(Action::Merge { parts, out, s3 }) => merge(&parts, &out, &s3),
        Some(Action::Check { index, root, s3 }) => check::main(&index, root, &s3),
    };
    done.err().unwrap_or(ExitCode::SUCCESS)
}

/// `pipemill index merge`: makes one index of the indexes of all parts.
fn merge(parts: &[OsString], out: &OsStr, s3: &s3::S3Args) -> Result<(), ExitCode> {
    let out = s3::location(out)?;
    let mut storage = storage(s3);
    let mut read = Vec::with_capacity(parts.len());
    for part in parts {
        read.push(self::read(&mut storage, &s3::location(part)?)?.0);
    }
    let merged = Index::merge(&read).map_err(|why| exit::because(exit::DATA, why))?;
    storage.write(&merged, &out, None).map_err(|error| unusable(&error))?;
    make::summarize(&merged, &out);
    Ok(())
}

/// Reads and writes indexes, with these options for S3.
fn storage(s3: &s3::S3Args) -> Storage {
    Storage::new(settings(s3))
}

/// The settings for S3, of no object.
fn settings(s3: &s3::S3Args) -> Settings {
    let mut settings = Settings::new(Selection::Objects(Vec::new()));
    settings.access = s3.access();
    settings
}

/// Reports that the sources can't be listed.
fn unlisted(error: &SourceError) -> ExitCode {
    let code = if error.missing { exit::MISSING } else { exit::DATA };
    exit::because(code, s3::with_option_names(&error.in_full()))
}

/// Reads an index. An error is reported; the exit code is returned.
fn read(storage: &mut Storage, location: &Location) -> Result<(Index, Version), ExitCode> {
    storage.read(location).map_err(|error| unusable(&error))
}

/// Reports the error of an index.
fn unusable(error: &IndexError) -> ExitCode {
    let code = if error.missing { exit::MISSING } else { exit::DATA };
    exit::because(code, s3::with_option_names(&error.to_string()))
}
