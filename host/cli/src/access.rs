//! `pipemill access`: records of an index by their numbers, for the process that has started it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use pipemill_config::parse_size;
use pipemill_decode::{Builtins, Engine};
use pipemill_run::{self as run, AccessLimits, Owner};

use super::config;
use super::exit::{self, Refusal};

/// Give the process PID, which is the parent, records of an index by their numbers. It sends them
/// through standard input, a socket. This is how `pipemill.Dataset` in Python reads
#[derive(Clone, clap::Args)]
pub(super) struct Args {
    /// End when this process ends or closes standard input
    #[arg(long, value_name = "PID")]
    owner: i32,
    /// The configuration, whose only channel has an index as its source
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Bytes of decoded blocks that are kept, with their unit
    #[arg(long, default_value = "256MiB", value_name = "SIZE")]
    cache: String,
    /// Most bytes of the values in an answer, with their unit, unless it has a single record
    #[arg(long, default_value = "1GiB", value_name = "SIZE", value_parser = parse_size)]
    answer: u64,
    /// A field that records have; several are in this order [default: all]
    #[arg(long = "field", value_name = "NAME")]
    fields: Vec<String>,
}

pub(super) fn main(args: &Args, builtins: Builtins) -> ExitCode {
    match attempt(args, builtins) {
        Ok(()) => ExitCode::SUCCESS,
        Err(refusal) => refusal.code.into(),
    }
}

fn attempt(args: &Args, builtins: Builtins) -> Result<(), Refusal> {
    let owner = Arc::new(Owner::new(args.owner, false));
    let refuse = |kind, refusal: Refusal| {
        owner.refuse(kind, &refusal.why);
        refusal
    };
    let config = config::read(&args.config).map_err(|refusal| refuse("refused", refusal))?;
    let engine = Engine::of_environment(builtins).map_err(|error| {
        let why = format!("can't start the WebAssembly engine: {error:#}");
        refuse("host", Refusal::new(exit::SYSTEM, why))
    })?;
    // A program may have passed on what a person wrote, so it is told what is wrong.
    let cache = parse_size(&args.cache).map_err(|wrong| {
        refuse("refused", Refusal::new(exit::USAGE, format!("`cache`: {wrong}")))
    })?;
    let limits = AccessLimits { cache, answer: args.answer };
    run::access(&config, &engine, &owner, &args.fields, limits).map_err(|why| {
        let refusal = Refusal { code: exit::USAGE, why };
        refuse("refused", refusal)
    })
}
