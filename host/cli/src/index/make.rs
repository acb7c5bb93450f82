//! `pipemill index SOURCE`: reads all objects of a source, and writes their index.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use indicatif::{HumanBytes, HumanCount};
use pipemill_channel::{
    Channel, ChannelStats, DecodeErrorLog, ErrorPolicy, Learning, OnError, OnPluginError, Workers,
};
use pipemill_config::parse_size;
use pipemill_decode::{Builtins, Limits, Plugin, ReadyPlugin};
use pipemill_index::{BuildSettings, Index, Storage, Version, build};
use pipemill_lock::LOCK_FILE;
use pipemill_planned::read_for;
use pipemill_run::Machine;
use pipemill_source::s3::{Address, Settings, SharedInventories};
use pipemill_source::{Compression, ListPart, Location, Paths, ReadSettings, Source, Stop};
use pipemill_telemetry::progress::{Progress, ProgressSnapshot, ShownChannel, is_watched};
use pipemill_types::{AddedField, printable};

use super::{progress, read, settings, storage, unlisted, unusable};
use crate::cat::{added_field, key_value};
use crate::find_decoder::{DecodedSource, TrustArgs, WithData, find_decoder, known_decoder};
use crate::output::remark;
use crate::{engine, exit, s3};

/// The options of the command.
#[derive(clap::Args, Clone)]
pub(super) struct MakeArgs {
    /// Files, folders, `s3://bucket/key`, `s3://bucket/prefix`
    #[arg(required_unless_present = "update", value_name = "SOURCE")]
    sources: Vec<OsString>,
    /// The file of the index, or its address, `s3://bucket/key`. An older one is replaced once the
    /// new one is complete [default: with --update, the index that is updated]
    #[arg(long, value_name = "FILE", required_unless_present = "update")]
    out: Option<OsString>,
    /// Update this index: list its sources again, and read only the objects that are new or have
    /// changed, with its decoder and its options. Name files of options again, with --option
    #[arg(long, value_name = "INDEX", conflicts_with_all = [
        "sources", "decoder", "skip_errors", "max_record",
    ])]
    update: Option<OsString>,
    /// A built-in decoder's name, a name of pipemill.lock, or a plugin's path (`FILE.wasm`)
    /// [default: found by the name of the first object and its first bytes]
    #[arg(long, short)]
    decoder: Option<String>,
    /// An option of the decoder; see `pipemill plugin list`
    #[arg(long = "option", short = 'o', value_name = "K=V", value_parser = key_value)]
    options: Vec<(String, String)>,
    #[command(flatten)]
    trust: TrustArgs,
    /// Add fields to each record, after those of the decoder, wherever the index is read and no
    /// other ones are named: `date=utf8`, the value of the folder `date=…` in its object's path, of
    /// this type; `__object__`, the object's name
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = added_field)]
    #[arg(conflicts_with = "update")]
    pub(super) add_fields: Vec<AddedField>,
    /// Read one part of the objects: INDEX/COUNT, the index from 0. `pipemill index merge` makes
    /// one index of all parts
    #[arg(long, value_name = "INDEX/COUNT", conflicts_with = "update")]
    pub(super) part: Option<ListPart>,
    /// List the objects alone, and read none of them: the index knows no records. It pins the
    /// objects, and saves the listing
    #[arg(long, conflicts_with_all = [
        "decoder", "options", "part", "skip_errors", "max_record", "distance", "workers",
    ])]
    objects_only: bool,
    /// Count the records of objects by the plans that their decoder makes of them, and read none of
    /// their records. Objects whose plans don't say how many records they have are read
    #[arg(long, conflicts_with_all = ["objects_only", "skip_errors", "progress"])]
    by_plan: bool,
    /// Take the lists of prefixes in S3 from this inventory: the address of its manifest.json
    #[arg(long, value_name = "ADDRESS", value_parser = inventory)]
    inventory: Option<Address>,
    /// Save what was read in this file every so often, and go on from there if the command was
    /// killed. It is removed at the end [default: `.NAME.progress` in the folder of the index; for
    /// an index in S3, nothing is saved]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["update", "objects_only"])]
    pub(super) progress: Option<PathBuf>,
    /// Threads that decode [default: as many as this machine has cores for]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    workers: Option<u32>,
    /// Skip bytes that can't be decoded, and count them. Otherwise the first one ends the command
    #[arg(long)]
    pub(super) skip_errors: bool,
    /// If errors are skipped: stop after errors in more places than this
    #[arg(long, default_value_t = 1000, value_name = "N")]
    max_errors: u64,
    /// Largest record, with its unit
    #[arg(long, default_value = "64MiB", value_name = "SIZE", value_parser = parse_size)]
    pub(super) max_record: u64,
    /// Least distance of two places in an object, with its unit
    #[arg(long, default_value = "4MiB", value_name = "SIZE", value_parser = parse_size)]
    pub(super) distance: u64,
    #[command(flatten)]
    pub(super) s3: s3::S3Args,
}

fn inventory(address: &str) -> Result<Address, &'static str> {
    let address: Address = address.parse()?;
    if address.key.is_empty() { Err("it has no key") } else { Ok(address) }
}

impl MakeArgs {
    /// Number of threads.
    fn workers(&self) -> usize {
        self.workers.map_or_else(|| Machine::here().decoding_cores(), |n| n as usize)
    }

    /// How the sources are listed.
    fn reading(&self) -> ReadSettings {
        let inventory = self.inventory.clone().map(Box::new);
        // The fields are learned from a source of their own.
        let inventories = Some(SharedInventories::default());
        ReadSettings { inventory, inventories, ..ReadSettings::default() }
    }
}

/// The name of the channel in messages.
const NAME: &str = "index";

pub(super) fn main(args: MakeArgs, builtins: Builtins) -> Result<(), ExitCode> {
    s3::check_addresses(&args.sources)?;
    let mut storage = storage(&args.s3);
    let (mut args, older, version) = match &args.update {
        Some(name) => of_older(&args, name, &mut storage)?,
        None => (args, None, None),
    };
    // The command line without it is refused.
    let out = s3::location(args.out.as_deref().unwrap_or_default())?;
    let system = |error| exit::because(exit::SYSTEM, format!("can't start: {error}"));
    let sources = absolute(&args.sources).map_err(system)?;
    if args.objects_only || older.as_ref().is_some_and(|older| older.header.objects_only) {
        let index = objects_alone(&args, &sources)?;
        storage.write(&index, &out, version.as_ref()).map_err(|error| unusable(&error))?;
        summarize(&index, &out);
        return Ok(());
    }
    let engine = engine(builtins)?;
    let reach = (&args.s3, &args.trust);
    let known =
        known_decoder(&engine, args.decoder.as_deref(), &args.options, &args.sources, reach)?;
    let with_data = known.as_ref().and_then(|known| known.with_data.as_ref());
    if let (Some(known), Some(with_data)) = (&known, with_data) {
        say_what_readers_need(&known.ready.plugin, with_data);
    }
    let plugin = known.map(|known| known.ready);
    if let (Some(older), Some(plugin)) = (&older, &plugin) {
        check_decoder(older, plugin)?;
    }
    let stop = Stop::new().map_err(system)?;
    let first = sources.clone();
    let names: Vec<_> = sources.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    let reading = read_for(plugin.as_ref().map(|ready| &ready.plugin), args.reading());
    let source: Box<dyn Source> =
        Box::new(Paths::new(sources, reading.clone(), args.s3.access(), stop.clone()));
    let found = match plugin {
        Some(ready) => DecodedSource::new(ready, source),
        None => find_decoder(&engine, source, &args.options, true)?,
    };
    let progress = match older {
        Some(_) => None,
        // It is quick.
        None if args.by_plan => None,
        None => progress::open(&args, &out, &found, (&names, &reading)),
    };
    let older = match (&older, &progress) {
        (Some(older), _) => vec![older.clone()],
        (None, Some(progress)) => progress.done().to_vec(),
        (None, None) => Vec::new(),
    };
    let settings = BuildSettings {
        decoder: decoder_of(&args, &found.plugin),
        sources: names,
        compression: Compression::Auto,
        skips_errors: args.skip_errors,
        distance: args.distance,
        older: older.clone(),
        progress,
        by_plan: args.by_plan.then(|| args.workers()),
        part: args.part,
        add_fields: args.add_fields.clone(),
    };
    let skipped: u64 = match &args.update {
        Some(_) => 0,
        None => older.iter().flat_map(|older| older.objects.iter()).map(|one| one.errors).sum(),
    };
    args.max_errors = args.max_errors.saturating_sub(skipped);
    let mut channel = channel(&args, found);
    if args.part.is_some() || args.by_plan {
        // All parts learn from the same objects. Those that are counted by their plans have no
        // record from which to learn.
        let first = Paths::new(first, reading, args.s3.access(), stop);
        channel.learning = Learning::From { source: Box::new(first), lists_all: false };
    }
    if let Some(older) = older.iter().find(|older| !older.header.fields.is_empty()) {
        channel.learning = Learning::Known(older.header.fields.as_slice().into());
    }
    let stats = Arc::new(ChannelStats::default());
    let shown = is_watched().then(|| show_progress(&mut channel, &stats));
    let built = build(channel, settings, &stats);
    drop(shown);
    let index = built.map_err(|failure| {
        let code = exit::of_failure(&failure);
        let text = s3::with_option_names(&failure.to_string());
        exit::because_of(&*failure, code, text.replace("`max_record`", "`--max-record`"))
    })?;
    // Nothing stops this command but a signal, which ends the process.
    let Some((index, progress)) = index else { return Ok(()) };
    storage.write(&index, &out, version.as_ref()).map_err(|error| unusable(&error))?;
    if let Some(Err(error)) = progress.map(pipemill_index::Progress::remove) {
        log::warn!("the saved progress can't be removed: {error}");
    }
    summarize(&index, &out);
    Ok(())
}

/// An index names its decoder, and who reads it looks this name up.
fn say_what_readers_need(plugin: &Plugin, with_data: &WithData) {
    let (name, digest, WithData { file, address }) = (plugin.name(), plugin.digest(), with_data);
    log::warn!(
        "the index names the decoder {name}, which came with the data, in {file}: whoever reads \
         the index needs it in {LOCK_FILE}, from `pipemill plugin add` of {}, with `--sha256 \
         {digest}`",
        printable(address)
    );
}

/// The options with which an older index was made, the index itself, and its state if it is
/// replaced.
fn of_older(args: &MakeArgs, name: &OsStr, storage: &mut Storage) -> Result<Older, ExitCode> {
    let location = s3::location(name)?;
    let (older, version) = read(storage, &location)?;
    let is_replaced = match &args.out {
        Some(out) => s3::location(out)? == location,
        None => true,
    };
    let header = &older.header;
    let options = header.options_with(&args.options).map_err(|(own, indexed)| {
        let why = format!(
            "the options are {{ {own} }}, and the index was made with {{ {indexed} }}: leave them \
             out, except for files, or make a new index of all objects"
        );
        exit::because(exit::USAGE, why)
    })?;
    let add_fields = header.added().map_err(|word| {
        let why = format!("the index adds the field `{word}`, which this version does not know");
        exit::because(exit::USAGE, why)
    })?;
    if args.by_plan && header.skips_errors {
        let why = "--by-plan reads no record, and the index was made with --skip-errors: leave \
                   --by-plan out";
        return Err(exit::because(exit::USAGE, why));
    }
    let args = MakeArgs {
        add_fields,
        sources: header.sources.iter().map(OsString::from).collect(),
        out: Some(args.out.clone().unwrap_or_else(|| name.to_owned())),
        decoder: Some(header.decoder.clone()),
        options,
        skip_errors: header.skips_errors,
        by_plan: args.by_plan || header.by_plan,
        max_record: header.max_record,
        ..args.clone()
    };
    Ok((args, Some(Arc::new(older)), is_replaced.then_some(version)))
}

/// The options with which an older index was made, the index itself, and its state if it is
/// replaced.
type Older = (MakeArgs, Option<Arc<Index>>, Option<Version>);

/// The index of the objects alone.
fn objects_alone(args: &MakeArgs, sources: &[OsString]) -> Result<Index, ExitCode> {
    let mut names = Vec::with_capacity(sources.len());
    for source in sources {
        let name = source.to_str().filter(|name| *name != "-").ok_or_else(|| {
            let name = source.to_string_lossy();
            let why = format!("`{name}` can't be listed: name files, folders or addresses in S3");
            exit::because(exit::USAGE, why)
        })?;
        names.push(name.to_owned());
    }
    let settings = Settings { reading: args.reading(), ..settings(&args.s3) };
    Index::of_objects(names, &settings, &args.add_fields).map_err(|error| unlisted(&error))
}

/// An index has the records of one decoder.
fn check_decoder(older: &Index, ready: &ReadyPlugin) -> Result<(), ExitCode> {
    let (then, now) = (&older.header.decoder_identity, ready.plugin.identity());
    if *then == now && older.header.options == ready.options {
        return Ok(());
    }
    if *then == now {
        let why = "a file that an option names is not the one with which the index was made: name \
                   that one, or make a new index of all objects";
        return Err(exit::because(exit::USAGE, why));
    }
    let why = format!(
        "the index was made with the decoder {then}, and this one is {now}: its records may be \
         others; make a new index of all objects"
    );
    Err(exit::because(exit::USAGE, why))
}

/// Paths that do not begin with `/` are made absolute: an index may be read in another folder.
fn absolute(sources: &[OsString]) -> std::io::Result<Vec<OsString>> {
    let absolute = |name: &OsString| match Address::is_s3_url(name) || name == "-" {
        true => Ok(name.clone()),
        false => std::path::absolute(name).map(PathBuf::into_os_string),
    };
    sources.iter().map(absolute).collect()
}

/// The decoder as a configuration names it. The path of a plugin is absolute.
fn decoder_of(args: &MakeArgs, plugin: &Plugin) -> String {
    let name = args.decoder.as_deref().unwrap_or(plugin.name());
    let is_path = name.contains('/') || name.ends_with(".wasm");
    let path = is_path.then(|| std::path::absolute(name).ok()).flatten();
    path.map_or_else(|| name.to_owned(), |path| path.to_string_lossy().into_owned())
}

fn channel(args: &MakeArgs, found: DecodedSource) -> Channel {
    let DecodedSource { plugin, options, source } = found;
    let on_error = if args.skip_errors { OnError::Skip } else { OnError::Fail };
    let can_reread = source.can_reread();
    Channel {
        name: NAME.to_owned(),
        source,
        plugin,
        options,
        limits: Limits::for_records(args.max_record),
        policy: ErrorPolicy::new(on_error, OnPluginError::Fail, args.max_errors),
        max_record: args.max_record,
        linger: Duration::from_millis(10),
        batch: None,
        shuffle: None,
        resume: None,
        learning: Learning::FromOwn,
        cache: None,
        added_fields: Vec::new(),
        offsets: false,
        inflates_in_background: false,
        workers: Workers::new(if can_reread { args.workers() } else { 1 }),
        observers: vec![Box::new(DecodeErrorLog::new(NAME, "the number in the index"))],
    }
}

fn show_progress(channel: &mut Channel, stats: &Arc<ChannelStats>) -> Progress {
    let (total, stats) = (channel.source.total_size(), stats.clone());
    let snapshot = Box::new(move || Some(ProgressSnapshot::of(&stats)));
    Progress::of(vec![ShownChannel { name: None, total, snapshot }])
}

pub(super) fn summarize(index: &Index, out: &Location) {
    let header = &index.header;
    if header.objects_only {
        let (objects, bytes) = (HumanCount(header.objects), HumanBytes(header.bytes));
        return remark(format_args!("{out}: {objects} objects of {bytes}"));
    }
    let skipped: u64 = index.objects.iter().map(|object| object.errors).sum();
    let errors = if skipped > 0 {
        format!(", {} errors skipped", HumanCount(skipped))
    } else {
        String::new()
    };
    remark(format_args!(
        "{out}: {} records in {} objects of {}{errors}; {} places",
        HumanCount(header.records),
        HumanCount(header.objects),
        HumanBytes(header.bytes),
        HumanCount(index.objects.places() as u64),
    ));
}
