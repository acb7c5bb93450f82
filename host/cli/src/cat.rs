//! `pipemill cat`: decodes sources and prints the records to standard output.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;

use pipemill_channel::{
    Channel, ChannelStats, DecodeErrorLog, ErrorPolicy, Failure, Learning, OnError, OnPluginError,
    Outcome, Workers,
};
use pipemill_decode::{Builtins, Limits};
use pipemill_planned::read_for;
use pipemill_source::{Compression, Paths, ReadSettings, Source, Stop};
use pipemill_types::AddedField;

use super::find_decoder::{DecodedSource, TrustArgs, find_decoder, known_decoder};
use super::matching::{Condition, Matching};
use super::print::{self, Choice, Output, Printer};
use super::{engine, exit, output, s3};
use pipemill_channel::memory_sink::MemorySink;
use pipemill_config::parse_size;
use pipemill_telemetry::progress::{Progress, ProgressSnapshot, ShownChannel, is_watched};

/// Decode files, FIFOs, objects in S3 or standard input to standard output.
///
/// Exits with 0 if all was decoded, 64 if the command line is wrong, 65 if something could not be
/// decoded (all records before it are printed), 66 if an input does not exist.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  pipemill cat -d csv -o header=true --limit 5 train.csv
  pipemill cat -d tfrecord --output arrow s3://bucket/train/ | python -c \"import pyarrow as pa, \
sys; print(pa.ipc.open_stream(sys.stdin.buffer).read_all())\"")]
pub(super) struct Args {
    /// Files, folders, FIFOs, `s3://bucket/key`, `s3://bucket/prefix`; `-` is standard input
    #[arg(required = true, value_name = "SOURCE")]
    sources: Vec<OsString>,
    /// A built-in decoder's name, a name of pipemill.lock, or a plugin's path (`FILE.wasm`)
    /// [default: found by the name of the first object and its first bytes]
    #[arg(long, short)]
    decoder: Option<String>,
    /// An option of the decoder; see `pipemill plugin list`
    #[arg(long = "option", short = 'o', value_name = "K=V", value_parser = key_value)]
    options: Vec<(String, String)>,
    #[command(flatten)]
    trust: TrustArgs,
    /// What to print [default: table on a terminal, else jsonl]
    #[arg(long, value_enum)]
    output: Option<Output>,
    /// Print this many records at most, and read no further [default: 40 for a table]
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Skip this many records first
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip: u64,
    /// Print only these fields, in this order
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    fields: Vec<String>,
    /// Add fields to each record, after those of the decoder: `__object__`, the object's name;
    /// `date=utf8`, the value of the folder `date=…` in its path, of this type
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = added_field)]
    add_fields: Vec<AddedField>,
    /// Read only objects whose name, or the last part of it, matches: `object=*.csv`
    #[arg(long = "where", value_name = "object=PATTERN", value_parser = Condition::parse)]
    conditions: Vec<Condition>,
    /// What to do with bytes that can't be decoded
    #[arg(long, value_enum, default_value = "fail")]
    on_error: OnErrorArg,
    /// The file for bytes that can't be decoded, as JSON lines
    #[arg(long, value_name = "FILE", required_if_eq("on_error", "quarantine"))]
    quarantine: Option<PathBuf>,
    /// What to do if the decoder itself fails
    #[arg(long, value_enum, default_value = "fail")]
    on_plugin_error: OnPluginErrorArg,
    /// If errors are skipped: stop after errors in more places than this
    #[arg(long, default_value_t = 1000, value_name = "N")]
    max_errors: u64,
    /// Largest record, with its unit
    #[arg(long, default_value = "64MiB", value_name = "SIZE", value_parser = parse_size)]
    max_record: u64,
    /// How the input is compressed
    #[arg(long, value_enum, default_value = "auto")]
    compression: CompressionArg,
    #[command(flatten)]
    s3: s3::S3Args,
}

/// Rows of a table if `--limit` is not given.
const TABLE_ROWS: u64 = 40;

impl Args {
    /// The output format: a table for a person, JSON lines for a program.
    fn output(&self) -> Output {
        let default = if output::is_terminal() { Output::Table } else { Output::Jsonl };
        self.output.unwrap_or(default)
    }

    /// The records to print.
    fn choice(&self) -> Choice {
        let rows = (self.output() == Output::Table).then_some(TABLE_ROWS);
        Choice { limit: self.limit.or(rows), skip: self.skip, fields: self.fields.clone() }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum OnErrorArg {
    /// Stop at the first decode error
    Fail,
    /// Skip them
    Skip,
    /// Skip them and write them to the quarantine file
    Quarantine,
}

#[derive(Clone, Copy, ValueEnum)]
enum OnPluginErrorArg {
    /// Stop
    Fail,
    /// Skip the rest of the object
    SkipObject,
}

#[derive(Clone, Copy, ValueEnum)]
enum CompressionArg {
    /// By the ending of the name: .gz, .gzip, .tgz, .zz, .zst, .zstd, .tzst; in S3 also by
    /// Content-Encoding
    Auto,
    None,
    Gzip,
    Zlib,
    Zstd,
}

/// Parses the name of a field that is added to each record.
pub(super) fn added_field(name: &str) -> Result<AddedField, String> {
    match AddedField::from_word(name) {
        Some(field @ (AddedField::Object | AddedField::Partition(_))) => Ok(field),
        Some(AddedField::Index) => Err(
            "records have a number where they are read from an index, as `pipemill.cat` does in \
             Python"
                .to_owned(),
        ),
        None => Err("the fields that can be added are `__object__` and NAME=TYPE, such as \
                     `date=utf8` for the value of the folders `date=…`"
            .to_owned()),
    }
}

/// Parses `NAME=VALUE`.
pub(super) fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write it as NAME=VALUE".to_owned()),
    }
}

pub(super) fn main(args: Args, builtins: Builtins) -> ExitCode {
    if let Err(code) = s3::check_addresses(&args.sources) {
        return code;
    }
    let engine = match engine(builtins) {
        Ok(engine) => engine,
        Err(code) => return code,
    };
    let reach = (&args.s3, &args.trust);
    let known =
        known_decoder(&engine, args.decoder.as_deref(), &args.options, &args.sources, reach);
    let plugin = match known {
        Ok(known) => known.map(|known| known.ready),
        Err(code) => return code,
    };
    let stop = match Stop::new() {
        Ok(stop) => stop,
        Err(error) => return exit::because(exit::SYSTEM, format!("can't start: {error}")),
    };
    let (format, choice) = (args.output(), args.choice());
    let on_error = match (args.on_error, args.quarantine) {
        (OnErrorArg::Fail, _) => OnError::Fail,
        (OnErrorArg::Quarantine, Some(path)) => OnError::Quarantine(path),
        (OnErrorArg::Skip | OnErrorArg::Quarantine, _) => OnError::Skip,
    };
    let on_plugin_error = match args.on_plugin_error {
        OnPluginErrorArg::Fail => OnPluginError::Fail,
        OnPluginErrorArg::SkipObject => OnPluginError::SkipObject,
    };
    let more_errors = match &on_error {
        OnError::Quarantine(file) => file.display().to_string(),
        _ => "--on-error quarantine, which keeps all of them".to_owned(),
    };
    let compression = match args.compression {
        CompressionArg::Auto => Compression::Auto,
        CompressionArg::None => Compression::None,
        CompressionArg::Gzip => Compression::Gzip,
        CompressionArg::Zlib => Compression::Zlib,
        CompressionArg::Zstd => Compression::Zstd,
    };
    let reading = ReadSettings { compression, ..ReadSettings::default() };
    let reading = read_for(plugin.as_ref().map(|ready| &ready.plugin), reading);
    let mut source: Box<dyn Source> =
        Box::new(Paths::new(args.sources, reading, args.s3.access(), stop));
    if !args.conditions.is_empty() {
        source = Box::new(Matching::new(source, args.conditions));
    }
    let inflate = compression == Compression::Auto;
    let found = match plugin {
        Some(ready) => Ok(DecodedSource::new(ready, source)),
        None => find_decoder(&engine, source, &args.options, inflate),
    };
    let DecodedSource { plugin, options, source } = match found {
        Ok(found) => found,
        Err(code) => return code,
    };
    let channel = Channel {
        name: "cat".to_owned(),
        source,
        plugin,
        options,
        limits: Limits::for_records(args.max_record),
        policy: ErrorPolicy::new(on_error, on_plugin_error, args.max_errors),
        max_record: args.max_record,
        linger: Duration::from_millis(10),
        batch: None,
        shuffle: None,
        resume: None,
        learning: Learning::FromOwn,
        cache: None,
        added_fields: args.add_fields,
        offsets: format == Output::Jsonl,
        inflates_in_background: false,
        workers: Workers::new(1),
        observers: vec![Box::new(DecodeErrorLog::new("cat", more_errors))],
    };
    run(channel, format, choice)
}

/// Replaces keys of the configuration in the remedy by the options of the command line.
fn with_option_names(mut failure: Failure) -> Failure {
    for key in
        ["on_error", "on_plugin_error", "max_record", "max_errors", "quarantine", "compression"]
    {
        let option = format!("`--{}`", key.replace('_', "-"));
        let remedy = &mut failure.fault.remedy;
        *remedy = remedy.replace(&format!("`{key}`"), &option);
    }
    failure.fault.remedy = s3::with_option_names(&failure.fault.remedy);
    failure
}

fn run(mut channel: Channel, format: Output, choice: Choice) -> ExitCode {
    let mut sink = MemorySink::new(Printer::new(format, choice), print::BATCH_MEMORY);
    let stats = Arc::new(ChannelStats::default());
    // If records go to the terminal, no progress is shown: it would disturb them.
    let is_free = format == Output::Count || !output::is_terminal();
    let progress = (is_watched() && is_free).then(|| {
        let (total, stats) = (channel.source.total_size(), stats.clone());
        Progress::of(vec![ShownChannel {
            name: None,
            total,
            snapshot: Box::new(move || Some(ProgressSnapshot::of(&stats))),
        }])
    });
    let outcome = channel.run(&mut sink, &stats);
    channel.stop(&stats);
    // The progress is wiped first: otherwise the count would follow it on the same line.
    drop(progress);
    let closed = sink.looker.close(!matches!(outcome, Outcome::Failed(_)));
    if let Outcome::Failed(failure) = outcome {
        let failure = with_option_names(failure);
        return exit::because_of(&failure, exit::of_failure(&failure), &failure);
    }
    match closed.err().and_then(|error| error.report()) {
        Some((code, why)) => exit::because(code, why),
        None => ExitCode::SUCCESS,
    }
}
