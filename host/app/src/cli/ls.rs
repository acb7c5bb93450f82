//! `pipemill ls`: which objects a channel would read.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use super::order::OrderArgs;
use super::{config, exit, s3};
use crate::config::Source;
use pipemill_source::Stop;
use pipemill_source::s3::{LazyS3, Listed, Selection, Settings, listing};
use pipemill_source::{Pattern, Reading, SourceError, size};

/// List the objects that a channel would read, in its order, with their sizes in bytes.
///
/// What is listed is printed as it comes, a line for each object: its size, a tab, its name. The number of objects
/// and their sizes together follow on standard error. Exits with 66 if there is nothing to list.
#[derive(clap::Args)]
pub(super) struct Args {
    /// `s3://bucket/key`, `s3://bucket/prefix`
    #[arg(value_name = "ADDRESS", required_unless_present = "config")]
    addresses: Vec<String>,
    /// A configuration, one of whose channels is meant
    #[arg(long, short, value_name = "FILE", requires = "channel", conflicts_with = "addresses")]
    config: Option<PathBuf>,
    /// The channel of the configuration
    #[arg(long, value_name = "NAME", requires = "config")]
    channel: Option<String>,
    /// The epoch, which makes a difference where objects are shuffled
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
    let mut lines = Lines { count: 0, size: 0, out: io::BufWriter::new(io::stdout().lock()) };
    let mut s3 = LazyS3::new(None);
    for source in sources {
        if let Err(error) = list(source, args.epoch, &mut s3, &mut lines) {
            // Lines before the error are as good as any.
            let _ = lines.out.flush();
            let code = if error.missing { exit::MISSING } else { exit::DATA };
            let error = error.in_full();
            let typed = args.config.is_none();
            let error = if typed { s3::in_words_of_the_command(&error) } else { error };
            return exit::because(code, error);
        }
    }
    if let Err(error) = lines.out.flush()
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        return exit::because(exit::SYSTEM, format!("can't write the output: {error}"));
    }
    eprintln!("{} objects, {} bytes", lines.count, lines.size);
    ExitCode::SUCCESS
}

fn sources(args: &Args) -> Result<Vec<Source>, ExitCode> {
    let Some(file) = &args.config else {
        return args.addresses.iter().map(|address| named(args, address)).collect();
    };
    args.s3.refuse_beside_config()?;
    let config = config::read_to_feed(file).map_err(exit::Refusal::told)?;
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

fn named(args: &Args, address: &str) -> Result<Source, ExitCode> {
    let parsed = s3::address(address)?;
    let mut settings = Settings::new(Selection::Named(parsed));
    settings.access = args.s3.access();
    settings.reading = Reading { order: args.order.order(), ..Reading::default() };
    Ok(Source::S3(Box::new(settings)))
}

struct Lines<W> {
    count: u64,
    size: u64,
    out: W,
}

impl<W: Write> Lines<W> {
    /// False if nobody reads them any more.
    fn add(&mut self, listed: &Listed) -> bool {
        self.count += 1;
        self.size += listed.size;
        writeln!(self.out, "{}\t{}", listed.size, listed.name).is_ok()
    }
}

fn list<W: Write>(
    source: Source,
    epoch: u32,
    s3: &mut LazyS3,
    lines: &mut Lines<W>,
) -> Result<(), SourceError> {
    let system = |error| SourceError::io("S3", "can't start", &error);
    match source {
        Source::S3(settings) => {
            let s3 = s3.get().map_err(system)?;
            let stop = Stop::new().map_err(system)?;
            listing(&s3, &settings, epoch, &stop, |listed| lines.add(&listed))
        }
        Source::Files { pattern, reading } => files(&pattern, &reading, epoch, lines),
        Source::Fifo { dir, .. } => {
            let name = dir.to_string_lossy().into_owned();
            let message = "the objects of a FIFO can't be listed";
            Err(SourceError::new(name, message, "ask who writes it"))
        }
        Source::Stdin { .. } => {
            let message = "the objects of standard input can't be listed";
            Err(SourceError::new("-", message, "ask who writes it"))
        }
    }
}

fn files<W: Write>(
    pattern: &Pattern,
    reading: &Reading,
    epoch: u32,
    lines: &mut Lines<W>,
) -> Result<(), SourceError> {
    for path in reading.share(pattern.list()?, epoch)? {
        let name = path.to_string_lossy().into_owned();
        let size = size(&path)?;
        if !lines.add(&Listed { name, size }) {
            break;
        }
    }
    Ok(())
}
