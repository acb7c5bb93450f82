//! Decodes the start of a source, to describe its records: for `schema` and `init`.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pipemill_channel::{
    Batch, Channel, ChannelStats, ErrorPolicy, Failure, Learning, OnError, OnPluginError, Outcome,
    StopReason, Workers,
};
use pipemill_decode::{Digest, Engine, Limits};
use pipemill_planned::read_for;
use pipemill_source::{Paths, ReadOutcome, ReadSettings, Source, SourceEvent, Stop};
use pipemill_types::{ABSENT, Field};

use super::cat::key_value;
use super::find_decoder::{DecodedSource, TrustArgs, find_decoder, known_decoder};
use super::print::table;
use super::propose::{self, JsonFields, Proposal};
use super::{exit, s3};
use pipemill_channel::memory_sink::{LookAtRecords, MemorySink};
use pipemill_config::parse_size;

/// The option of a decoder that says which fields its records have.
const FIELDS: &str = "fields";
/// Number of records whose values are kept.
const SHOWN_RECORDS: usize = 3;
/// Number of characters of a value that are kept.
const SHOWN_CHARS: usize = 40;
/// Bytes of records after which the sample is large enough to measure the rate.
const ENOUGH_BYTES: u64 = 8 << 20;
/// Time after which a sample is large enough, for a source that is slow.
const ENOUGH_TIME: Duration = Duration::from_secs(2);
/// Smallest number of input bytes with which a rate is measured.
const MEASURABLE_BYTES: u64 = 256 << 10;
/// Bytes of memory for a batch.
const BATCH_MEMORY: usize = 2 << 20;

/// Options that say how a source is decoded.
#[derive(clap::Args)]
pub(super) struct DecoderArgs {
    /// A built-in decoder's name, a name of pipemill.lock, or a plugin's path (`FILE.wasm`)
    /// [default: found by the name of the first object and its first bytes]
    #[arg(long, short)]
    decoder: Option<String>,
    /// An option of the decoder; see `pipemill plugin list`
    #[arg(long = "option", short = 'o', value_name = "K=V", value_parser = key_value)]
    options: Vec<(String, String)>,
    #[command(flatten)]
    trust: TrustArgs,
    /// Largest record, with its unit
    #[arg(long, default_value = "64MiB", value_name = "SIZE", value_parser = parse_size)]
    max_record: u64,
    #[command(flatten)]
    pub(super) s3: s3::S3Args,
}

/// The content of the start of a source.
#[derive(Default)]
pub(super) struct Sample {
    /// The decoder, and its options.
    pub(super) decoder: String,
    pub(super) options: Vec<(String, String)>,
    /// The SHA-256 of the decoder, if it came with the data.
    pub(super) trusted: Option<Digest>,
    /// The fields of the records.
    pub(super) fields: Vec<Field>,
    /// Of each field, its values in the first records, as text.
    pub(super) values: Vec<Vec<String>>,
    /// Of each field, the number of records that lack it.
    pub(super) absent: Vec<u64>,
    /// Number of records.
    pub(super) records: u64,
    /// Bytes of their fields.
    pub(super) bytes: u64,
    /// Bytes that were read for them.
    pub(super) read: u64,
    /// Time for them, from the first record on.
    pub(super) time: Duration,
    /// Bytes of the whole source, if they are known.
    pub(super) total_bytes: Option<u64>,
    /// The source ended: these are all its records.
    pub(super) complete: bool,
    /// A value for the option `fields`, if the decoder was given none.
    pub(super) proposal: Option<Proposal>,
}

impl Sample {
    /// The number of records of the whole source; `None` if it can't be estimated.
    pub(super) fn total_records(&self) -> Option<u64> {
        if self.complete {
            return Some(self.records);
        }
        let share = self.total_bytes? as f64 / self.read.max(1) as f64;
        Some((self.records as f64 * share) as u64)
    }

    /// Records a second; `None` if there was too little input to measure it.
    pub(super) fn rate(&self) -> Option<f64> {
        let seconds = self.time.as_secs_f64();
        let is_enough = self.read >= MEASURABLE_BYTES && seconds > 0.0;
        (is_enough && self.records > 0).then(|| self.records as f64 / seconds)
    }
}

/// Decodes the start of these sources. An error is reported; the exit code is returned.
pub(super) fn sample(
    engine: &Engine,
    sources: &[OsString],
    args: &DecoderArgs,
) -> Result<Sample, ExitCode> {
    s3::check_addresses(sources)?;
    let reach = (&args.s3, &args.trust);
    let known = known_decoder(engine, args.decoder.as_deref(), &args.options, sources, reach)?;
    let with_data = known.as_ref().filter(|known| known.with_data.is_some());
    let trusted = with_data.map(|known| *known.ready.plugin.digest());
    let plugin = known.map(|known| known.ready);
    let stop = Stop::new()
        .map_err(|error| exit::because(exit::SYSTEM, format!("can't start: {error}")))?;
    let reading = read_for(plugin.as_ref().map(|ready| &ready.plugin), ReadSettings::default());
    let source = Box::new(Paths::new(sources.to_vec(), reading, args.s3.access(), stop));
    let DecodedSource { plugin, mut options, source } = match plugin {
        Some(ready) => DecodedSource::new(ready, source),
        None => find_decoder(engine, source, &args.options, true)?,
    };
    let decoder = args.decoder.clone().unwrap_or_else(|| plugin.name().to_owned());
    let has_fields = options.iter().any(|(name, _)| name == FIELDS);
    // The decoder refuses to start without the option.
    let proposal = if decoder == "webdataset" && !has_fields {
        first_bytes(sources, args).and_then(|start| propose::tar_fields(&start))
    } else {
        None
    };
    let proposal = proposal.map(|fields| Proposal { fields, is_used: true });
    options.extend(proposal.iter().map(|it| (FIELDS.to_owned(), it.fields.clone())));
    let lines = (decoder == "jsonl" && !has_fields).then(JsonFields::default);
    let mut channel = Channel {
        name: "sample".to_owned(),
        source,
        plugin,
        options: options.clone(),
        limits: Limits::for_records(args.max_record),
        policy: ErrorPolicy::new(OnError::Fail, OnPluginError::Fail, 0),
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
        workers: Workers::new(1),
        observers: Vec::new(),
    };
    let total = channel.source.total_size();
    let stats = ChannelStats::default();
    let sampler = Sampler {
        sample: Sample { decoder, options, trusted, proposal, ..Sample::default() },
        lines,
        started: None,
    };
    let mut sink = MemorySink::new(sampler, BATCH_MEMORY);
    let outcome = channel.run(&mut sink, &stats);
    channel.stop(&stats);
    let Sampler { mut sample, lines, .. } = sink.looker;
    let of_lines = lines.and_then(|lines| lines.proposal());
    sample.proposal =
        sample.proposal.or(of_lines.map(|fields| Proposal { fields, is_used: false }));
    match outcome {
        Outcome::Failed(failure) => return Err(report(failure)),
        Outcome::Ended => sample.complete = true,
        Outcome::Stopped | Outcome::Restart => {}
    }
    sample.read = stats.snapshot().bytes;
    sample.total_bytes = total.of(0);
    Ok(sample)
}

/// The first bytes of the first object. `None` if they can be read only once, or not at all:
/// decoding then reports the reason.
fn first_bytes(sources: &[OsString], args: &DecoderArgs) -> Option<Vec<u8>> {
    let is_once = |source: &OsString| {
        use std::os::unix::fs::FileTypeExt;
        let metadata = std::path::Path::new(source).metadata();
        source == "-" || metadata.is_ok_and(|metadata| metadata.file_type().is_fifo())
    };
    if sources.iter().any(is_once) {
        return None;
    }
    let stop = Stop::new().ok()?;
    let mut source = Paths::new(sources.to_vec(), ReadSettings::default(), args.s3.access(), stop);
    let SourceEvent::Object(mut object) = source.next().ok()? else { return None };
    let (mut start, mut end) = (vec![0; propose::TAR_BYTES], 0);
    while end < start.len() {
        match object.input.read(&mut start[end..], None).ok()? {
            ReadOutcome::Bytes(count) => end += count,
            _ => break,
        }
    }
    start.truncate(end);
    Some(start)
}

fn report(mut failure: Failure) -> ExitCode {
    failure.fault.remedy = s3::with_option_names(&failure.fault.remedy);
    exit::because_of(&failure, exit::of_failure(&failure), &failure)
}

/// Keeps the values of the first records, and stops when there are enough.
struct Sampler {
    sample: Sample,
    /// The facts about lines of JSON.
    lines: Option<JsonFields>,
    /// Time when the first fields were known.
    started: Option<Instant>,
}

impl LookAtRecords for Sampler {
    fn schema(&mut self, fields: &Arc<[Field]>) {
        self.started = Some(Instant::now());
        self.sample.fields = fields.to_vec();
        self.sample.values = vec![Vec::new(); fields.len()];
        self.sample.absent = vec![0; fields.len()];
    }

    fn batch(&mut self, memory: &[u8], batch: &Batch) -> Result<(), StopReason> {
        let sample = &mut self.sample;
        if let (Some(lines), Some(column)) = (&mut self.lines, batch.columns.first()) {
            for (offset, length) in column.offsets().iter().zip(column.lengths()) {
                lines.add(&memory[*offset as usize..][..*length as usize]);
            }
        }
        for (index, (field, column)) in sample.fields.iter().zip(&batch.columns).enumerate() {
            let is_absent = |offset: &&u32| **offset == ABSENT;
            sample.absent[index] += column.offsets().iter().filter(is_absent).count() as u64;
            sample.bytes += column.bytes(0..column.len());
            let values = &mut sample.values[index];
            let spans = column.offsets().iter().zip(column.lengths());
            for (offset, length) in spans.take(SHOWN_RECORDS - values.len()) {
                let start = *offset as usize;
                let value = (*offset != ABSENT).then(|| &memory[start..start + *length as usize]);
                values.push(table::cell(field, value, SHOWN_CHARS));
            }
        }
        sample.records += batch.records as u64;
        sample.time = self.started.map(|started| started.elapsed()).unwrap_or_default();
        match sample.bytes >= ENOUGH_BYTES || sample.time >= ENOUGH_TIME {
            true => Err(StopReason::Stopped),
            false => Ok(()),
        }
    }
}
