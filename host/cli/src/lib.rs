//! The command line: the commands, their options, and the exit codes.
//!
//! - `access`: `pipemill access`: records of an index by their numbers, for a program.
//! - `cat`: `pipemill cat`: decodes sources and prints the records to standard output.
//! - `completions`: `pipemill completions`: a script that completes the command line in a shell.
//! - `config`: `pipemill config`: checks and shows a configuration, and prints its schema.
//! - `doctor`: `pipemill doctor`: says what is wrong with this machine, and what to do.
//! - `exit`: exit codes, taken from BSD's sysexits, and the report of a command that fails.
//! - `feed`: `pipemill feed`: feeds files or objects in S3 through FIFOs, as SageMaker's Pipe-mode
//!   agent does.
//! - `find_decoder`: finds the decoder of a source if the command line names none: for `cat`,
//!   `schema` and `init`.
//! - `index`: `pipemill index …`: makes, shows and checks the index of a source.
//! - `init`: `pipemill init`: writes a configuration and a training script for it, which run at
//!   once.
//! - `ls`: `pipemill ls`: lists the objects that a channel would read.
//! - `man`: `pipemill man`: the manual pages.
//! - `matching`: a source of those objects of another source whose names match a pattern: `--where
//!   object=…`.
//! - `order`: options for the order of objects and for one part of them: for all commands that read
//!   objects without a configuration.
//! - `output`: standard output and standard error of the commands.
//! - `outputs`: the outputs of a run that cover it from start to end: the report and the trace.
//! - `plugin`: `pipemill plugin …`: commands for authors of plugins and for people who build images
//!   with them.
//! - `print`: prints batches to standard output: as a table, JSON lines, CSV, Arrow, raw bytes or a
//!   count.
//! - `propose`: proposes the option `fields` of decoders that can't find the fields of their
//!   records: for `schema` and `init`.
//! - `run`: `pipemill run`: serves the channels of a configuration.
//! - `s3`: options for the access to S3: for all commands that read from there.
//! - `sample`: decodes the start of a source, to describe its records: for `schema` and `init`.
//! - `schema`: `pipemill schema`: describes the records of a source, and counts them.
//! - `top`: `pipemill top`: shows the status of running hosts, on a live screen, or once as text or
//!   JSON.

#![forbid(unsafe_code)]

mod access;
mod cat;
mod completions;
mod config;
mod doctor;
mod exit;
mod feed;
mod find_decoder;
mod index;
mod init;
mod ls;
mod man;
mod matching;
mod order;
mod output;
mod outputs;
mod plugin;
mod print;
mod propose;
mod run;
mod s3;
mod sample;
mod schema;
mod top;

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use nix::sys::signal::{SigSet, Signal};

use pipemill_decode::{
    Builtins, COMPILE_STDIN, Engine, Limits, Plugin, ReadyPlugin, compile_stdin,
};
use pipemill_types::Printable;

use pipemill_telemetry::log::{self, Format};

/// Streams records out of pipes and files, through sandboxed decoders, into shared memory.
#[derive(Parser)]
#[command(name = "pipemill", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Args),
    Cat(cat::Args),
    Schema(schema::Args),
    Init(init::Args),
    Index(index::Args),
    /// Compiles the plugin on standard input: the process in which pipemill itself compiles
    #[command(name = COMPILE_STDIN, hide = true)]
    CompileStdin,
    #[command(hide = true)]
    Access(access::Args),
    Config(config::Args),
    Feed(feed::Args),
    Ls(ls::Args),
    Plugin(plugin::Args),
    Top(top::Args),
    Doctor(doctor::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// The engine with the settings of the environment; if there is none, the error is reported and is
/// the exit code.
fn engine(builtins: Builtins) -> Result<Engine, ExitCode> {
    Engine::of_environment(builtins)
        .map_err(|error| exit::because(exit::SYSTEM, format!("can't start: {error:#}")))
}

/// Loads a decoder, which may be one of the lock file, and makes it ready for its options. If
/// something is wrong it reports that and returns the exit code: `unusable` if the decoder can't be
/// loaded.
fn load(
    engine: &Engine,
    name: &str,
    options: &[(String, String)],
    unusable: u8,
) -> Result<ReadyPlugin, ExitCode> {
    let plugin = pipemill_lock::load(engine, None, name, None)
        .map_err(|error| exit::because(unusable, error))?;
    ready(plugin, options)
}

/// Makes a decoder ready for its options. If something is wrong it reports that and returns the
/// exit code.
fn ready(plugin: Plugin, options: &[(String, String)]) -> Result<ReadyPlugin, ExitCode> {
    plugin.with_options(options, &Limits::default()).map_err(|faults| {
        let faults: Vec<_> = faults.into_iter().map(|(_, fault)| fault).collect();
        exit::because_all(exit::USAGE, &faults)
    })
}

fn printable_word(word: &OsStr) -> OsString {
    Printable::line(word.to_string_lossy()).to_string().into()
}

/// Writes the rest of the log when dropped, also in a panic.
struct FlushLog;

impl Drop for FlushLog {
    fn drop(&mut self) {
        log::flush();
    }
}

/// Lets a write beyond the limit of a file's size (`ulimit -f`) fail with an error. Otherwise a
/// signal would end the process without a message.
fn block_file_size_signal() {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGXFSZ);
    // It can't fail: the set is valid.
    let _ = signals.thread_block();
}

/// Runs the command line of this process with these built-in decoders. Returns the exit code.
pub fn main(builtins: Builtins) -> ExitCode {
    block_file_size_signal();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // The message quotes arguments, which may be names of files.
            let words = std::env::args_os().map(|word| printable_word(&word));
            let shown = Cli::try_parse_from(words).err().unwrap_or(error);
            // If the terminal is closed there is nothing to do.
            let _ = shown.print();
            return if shown.use_stderr() { exit::USAGE.into() } else { ExitCode::SUCCESS };
        }
    };
    // These commands run long: without a terminal, their log is for programs.
    let serves = matches!(cli.command, Command::Run(_) | Command::Feed(_));
    log::start(if serves { Format::Json } else { Format::Human });
    let _flush = FlushLog;
    match cli.command {
        Command::Run(args) => run::main(&args, builtins),
        Command::Access(args) => access::main(&args, builtins),
        Command::Config(args) => config::main(&args, builtins),
        Command::Cat(args) => cat::main(args, builtins),
        Command::Schema(args) => schema::main(&args, builtins),
        Command::Index(args) => index::main(args, builtins),
        Command::Init(args) => init::main(&args, builtins),
        Command::CompileStdin => compile_stdin().into(),
        Command::Feed(args) => feed::main(&args),
        Command::Ls(args) => ls::main(&args),
        Command::Plugin(args) => plugin::main(args, builtins),
        Command::Top(args) => top::main(&args),
        Command::Doctor(args) => doctor::main(&args),
        Command::Completions(args) => completions::main(&args, &mut Cli::command()),
        Command::Man(args) => man::main(&args, Cli::command()),
    }
}
