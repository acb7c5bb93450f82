//! `pipemill index …`: makes, shows and checks the index of a source.
//!
//! - `check`: compares an index with the objects that there are now.
//! - `make`: reads all objects of a source, and writes their index.
//! - `show`: shows what an index knows.

mod check;
mod make;
mod show;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use pipemill_decode::Builtins;
use pipemill_index::{Index, IndexError};

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
        /// The index
        index: PathBuf,
        /// Print a line for each object: its records, its size, its places, its name
        #[arg(long)]
        objects: bool,
    },
    /// Make one index of the indexes of all parts, in any order
    Merge {
        /// The indexes of the parts
        #[arg(required = true, value_name = "INDEX")]
        parts: Vec<PathBuf>,
        /// The file of the whole index
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// Compare an index with the objects that there are now. Prints a line for each difference;
    /// exits with 65 if there are any
    Check {
        /// The index
        index: PathBuf,
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
        Some(Action::Show { index, objects }) => show::main(&index, objects),
        Some(Action::Merge { parts, out }) => merge(&parts, &out),
        Some(Action::Check { index, root, s3 }) => check::main(&index, root, &s3),
    };
    done.err().unwrap_or(ExitCode::SUCCESS)
}

/// `pipemill index merge`: makes one index of the indexes of all parts.
fn merge(parts: &[PathBuf], out: &Path) -> Result<(), ExitCode> {
    let read = parts.iter().map(|part| Index::read(part)).collect::<Result<Vec<_>, _>>();
    let read = read.map_err(|error| unusable(&error))?;
    let merged = Index::merge(&read).map_err(|why| exit::because(exit::DATA, why))?;
    merged.write(out).map_err(|error| unusable(&error))?;
    make::summarize(&merged, out);
    Ok(())
}

/// Reports the error of an index.
fn unusable(error: &IndexError) -> ExitCode {
    exit::because(if error.missing { exit::MISSING } else { exit::DATA }, error)
}
