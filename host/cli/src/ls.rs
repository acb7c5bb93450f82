//! `pipemill ls`: lists the objects that a channel would read.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use pipemill_source::s3::{
    Address, LazyS3Runtime, ListedObject, Selection, Settings, list_objects,
};
use pipemill_source::{LeftOut, Pattern, ReadSettings, SourceError, Stop, file_size};
use pipemill_types::Printable;

use super::order::OrderArgs;
use super::{config, exit, output, s3};
use pipemill_config::Source;

/// List the objects that a channel would read, in its order, with their sizes in bytes.
///
/// Prints one line for each object, as soon as it is listed: its size, a tab, its name. Characters
/// of a name that can't be seen are printed as escapes. At the end it prints the number of objects
/// and the sum of their sizes on standard error. Exits with 66 if there is nothing to list.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  pipemill ls s3://bucket/train/
  pipemill ls --config pipemill.toml --channel train --epoch 3")]
pub(super) struct Args {
    /// Files, folders, `s3://bucket/key`, `s3://bucket/prefix`
    #[arg(value_name = "SOURCE", required_unless_present = "config")]
    addresses: Vec<OsString>,
    /// A configuration; give one of its channels with --channel
    #[arg(long, short, value_name = "FILE", requires = "channel", conflicts_with = "addresses")]
    config: Option<PathBuf>,
    /// The channel of the configuration
    #[arg(long, value_name = "NAME", requires = "config")]
    channel: Option<String>,
    /// The epoch: the order depends on it if objects are shuffled
    #[arg(long, default_value_t = 0, value_name = "N")]
    epoch: u32,
    #[command(flatten)]
    order: OrderArgs,
    #[command(flatten)]
    s3: s3::S3Args,
}

pub(super) fn main(args: &Args) -> ExitCode {
    let sources = match sources(args) {
        Ok(sources) => sources,
        Err(code) => return code,
    };
    let mut printer = ObjectPrinter { count: 0, size: 0, out: io::BufWriter::new(output::raw()) };
    let mut s3 = LazyS3Runtime::new(None);
    for source in sources {
        if let Err(error) = list(source, args.epoch, &mut s3, &mut printer) {
            // The lines before the error are valid: print them.
            let _ = printer.out.flush();
            let code = if error.missing { exit::MISSING } else { exit::DATA };
            let error = error.in_full();
            let typed = args.config.is_none();
            let error = if typed { s3::with_option_names(&error) } else { error };
            return exit::because(code, error);
        }
    }
    if let Err(error) = printer.out.flush()
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        return exit::because(exit::SYSTEM, format!("can't write the output: {error}"));
    }
    let objects = if printer.count == 1 { "object" } else { "objects" };
    output::remark(format_args!("{} {objects}, {} bytes", printer.count, printer.size));
    ExitCode::SUCCESS
}

fn sources(args: &Args) -> Result<Vec<Source>, ExitCode> {
    let Some(file) = &args.config else {
        s3::check_addresses(&args.addresses)?;
        return args.addresses.iter().map(|address| named(args, address)).collect();
    };
    args.s3.refuse_with_config()?;
    let config = config::read_to_feed(file).map_err(exit::Refusal::report)?;
    let name = args.channel.as_deref().unwrap_or_default();
    let found = config.channels.iter().find(|channel| channel.name == name);
    let channel = found.ok_or_else(|| {
        let names: Vec<_> = config.channels.iter().map(|channel| channel.name.as_str()).collect();
        let names = names.join(", ");
        let why = format!("{}: no channel `{name}`; there are: {names}", file.display());
        exit::because(exit::USAGE, why)
    })?;
    Ok(vec![channel.source.clone()])
}

fn named(args: &Args, address: &OsStr) -> Result<Source, ExitCode> {
    let reading = ReadSettings { order: args.order.order(), ..ReadSettings::default() };
    if !Address::is_s3_url(address) {
        let path = PathBuf::from(address);
        let pattern = if path.is_dir() { Pattern::Folder(path) } else { Pattern::File(path) };
        return Ok(Source::Files { pattern, reading });
    }
    let parsed = s3::address(address)?;
    let mut settings = Settings::new(Selection::Named(vec![parsed]));
    settings.access = args.s3.access();
    settings.reading = reading;
    Ok(Source::S3(Box::new(settings)))
}

/// Prints listed objects and counts them.
struct ObjectPrinter<W> {
    count: u64,
    size: u64,
    out: W,
}

impl<W: Write> ObjectPrinter<W> {
    /// Prints one object; false if nobody reads the output any more.
    fn add(&mut self, listed: &ListedObject) -> bool {
        self.count += 1;
        self.size += listed.size;
        writeln!(self.out, "{}\t{}", listed.size, Printable::name(&listed.name)).is_ok()
    }
}

fn list<W: Write>(
    source: Source,
    epoch: u32,
    s3: &mut LazyS3Runtime,
    printer: &mut ObjectPrinter<W>,
) -> Result<(), SourceError> {
    let system = |error| SourceError::io("S3", "can't start", &error);
    match source {
        Source::S3(settings) => {
            let s3 = s3.get().map_err(system)?;
            let stop = Stop::new().map_err(system)?;
            list_objects(&s3, &settings, epoch, &stop, |listed| printer.add(&listed))
        }
        Source::Files { pattern, reading } => files(&pattern, &reading, epoch, printer),
        Source::Fifo { dir, .. } => {
            let name = dir.to_string_lossy().into_owned();
            let message = "the objects of a FIFO can't be listed";
            Err(SourceError::new(name, message, "ask who writes it"))
        }
        // A configuration that is read for feeding contains no mix, and its indexes are read.
        Source::Stdin { .. } | Source::Mix(_) | Source::Index(_) => {
            let message = "the objects of standard input can't be listed";
            Err(SourceError::new("-", message, "ask who writes it"))
        }
    }
}

fn files<W: Write>(
    pattern: &Pattern,
    reading: &ReadSettings,
    epoch: u32,
    printer: &mut ObjectPrinter<W>,
) -> Result<(), SourceError> {
    let mut left_out = LeftOut::default();
    let listed = pattern.list(reading.hidden, &mut left_out)?;
    left_out.log(None, &pattern.name());
    for path in reading.share(listed, epoch)? {
        let name = path.to_string_lossy().into_owned();
        let (size, identity) = (file_size(&path)?, String::new());
        if !printer.add(&ListedObject { name, size, identity }) {
            break;
        }
    }
    Ok(())
}
