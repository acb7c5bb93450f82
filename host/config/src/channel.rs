//! Reads the table of one channel, and checks the rules that several of its values share.

use std::path::PathBuf;
use std::time::Duration;

use pipemill_channel::{OnError, OnPluginError, RecordOrder, Window};
use pipemill_decode::{Digest, Limits};
use pipemill_ring::host::slots_of_ranks;
use pipemill_source::Balance;
use pipemill_types::{AddedField, BatchAcross, BatchSize, Mode, Tail};

use super::document::{Purpose, ReadResult, Reported};
use super::fault::TextPosition;
use super::key::Key;
use super::keys::*;
use super::model::{Channel, Checkpoint, DecoderRef, Ring, Shuffle, Source, WorkerCount};
use super::read::Reader;
use super::shards;
use super::source;
use super::values::show_size;

/// Values that only one channel may have: its name, its checkpoint, and standard input.
#[derive(Default)]
pub(super) struct Taken {
    names: Vec<(String, TextPosition)>,
    checkpoints: Vec<(PathBuf, TextPosition)>,
    stdin: Option<TextPosition>,
}

/// Whether this is a valid name for a channel: 1 to 64 of `A-Z a-z 0-9 . _ -`.
pub fn is_channel_name(name: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=64).contains(&name.len()) && name.bytes().all(good)
}

fn name(reader: &Reader, taken: &mut Taken) -> ReadResult<String> {
    let given = reader.required(&NAME, reader.text(NAME.name, NAME.expected))?;
    if !is_channel_name(&given.text) {
        return Err(reader.wrong(NAME.name, NAME.expected, &given.found(), String::new()));
    }
    if let Some((_, first)) = taken.names.iter().find(|(name, _)| *name == given.text) {
        let message =
            format!("`{}` is already the name of the channel in line {}", given.text, first.line);
        return Err(reader.fault(NAME.name, message, "give each channel a name of its own".into()));
    }
    taken.names.push((given.text.clone(), reader.place(NAME.name)));
    Ok(given.text)
}

/// Reads the table of a channel.
pub(super) fn channel(reader: &Reader, taken: &mut Taken) -> ReadResult<Channel> {
    let name = name(reader, taken);
    let mut source = source::read(reader);
    let learn_from = source::learn_from(reader, &source);
    if let Ok(Source::Stdin { .. }) = source {
        let place = reader.place(SOURCE.name);
        if let Some(first) = taken.stdin.replace(place) {
            let message =
                format!("the channel in line {} already reads standard input", first.line);
            reader.fault(SOURCE.name, message, "one channel can read it".to_owned());
        }
    }
    let decoder = decoder(reader, &source);
    let sha256 = sha256(reader);
    let trust = trust(reader, &source);
    let options = options(reader);
    let added_fields = added_fields(reader, &source);
    let policy = reader.choice(&ON_ERROR);
    let on_error = on_error(reader, policy);
    let on_plugin_error = reader.choice(&ON_PLUGIN_ERROR);
    let max_errors = max_errors(reader, policy, on_plugin_error);
    let max_record = reader.number(&MAX_RECORD);
    let workers = workers(reader, &source);
    let mode = reader.choice(&MODE);
    let consumers = consumers(reader, mode);
    let batch = batch(reader);
    let shuffle = shuffle(reader, &batch, &workers, &mut source);
    let checkpoint = checkpoint(reader, &batch, taken);
    let order = order(reader, &workers, &batch, &shuffle);
    let ring = ring(reader, &batch);
    if let (Ok(Mode::Rank), Ok(consumers), Ok(batch), Ok(ring)) = (mode, &consumers, &batch, &ring)
    {
        check_ranks(reader, *consumers, *batch, ring)?;
    }
    let limits = limits(reader, &max_record, &ring, &shuffle);
    let (options, option_places) = options?;
    let (limits, batch_memory) = limits?;
    Ok(Channel {
        name: name?,
        source: source?,
        decoder: decoder?,
        decoder_place: reader.place(DECODER.name),
        sha256: sha256?,
        trust: trust?,
        options,
        option_places,
        added_fields: added_fields?,
        on_error: on_error?,
        on_plugin_error: on_plugin_error?,
        max_errors: max_errors?,
        max_record: max_record?,
        workers: workers?,
        order: order?,
        mode: mode?,
        consumers: consumers?,
        batch: batch?,
        shuffle: shuffle?,
        learn_from: learn_from?,
        indexed: None,
        resume: Vec::new(),
        resume_settings: Vec::new(),
        done: Vec::new(),
        checkpoint: checkpoint?,
        ring: ring?,
        limits,
        batch_memory,
    })
}

/// Reads the fields that are added to each record.
fn added_fields(reader: &Reader, source: &ReadResult<Source>) -> ReadResult<Vec<AddedField>> {
    let mut fields: Vec<AddedField> = Vec::new();
    for word in reader.texts(&ADD_FIELDS)?.unwrap_or_default() {
        let Some(field) = AddedField::from_word(&word) else {
            let found = format!("\"{word}\"");
            let remedy = match AddedField::from_word(&format!("{word}=utf8")) {
                Some(field) => format!("for a folder's value, write \"{}\"", field.word()),
                None => String::new(),
            };
            return Err(reader.wrong(ADD_FIELDS.name, ADD_FIELDS.expected, &found, remedy));
        };
        if fields.iter().any(|other| other.name() == field.name()) {
            let remedy = "name it once".to_owned();
            let message = format!("names `{}` twice", field.name());
            return Err(reader.fault(ADD_FIELDS.name, message, remedy));
        }
        fields.push(field);
    }
    let is_partition = |field: &&AddedField| matches!(field, AddedField::Partition(_));
    if let (Ok(Source::Fifo { .. } | Source::Stdin { .. }), Some(field)) =
        (source, fields.iter().find(is_partition))
    {
        let message = format!("the input has no folder `{}=…`", field.name());
        let remedy = "only files and objects in S3 have folders; leave this out".to_owned();
        return Err(reader.fault(ADD_FIELDS.name, message, remedy));
    }
    if let Ok(source) = source
        && fields.contains(&AddedField::Index)
        && !matches!(source, Source::Index(_) | Source::Mix(_))
    {
        let message =
            format!("only an index knows the number that `{}` is", AddedField::Index.name());
        let remedy = "make one with `pipemill index`, and read from it, or leave this out";
        return Err(reader.fault(ADD_FIELDS.name, message, remedy.to_owned()));
    }
    Ok(fields)
}

/// The decoder, if the file or the platform names one. A channel without one must have a source
/// whose first bytes can be looked at before the channel is served.
fn decoder(reader: &Reader, source: &ReadResult<Source>) -> ReadResult<Option<DecoderRef>> {
    if let Some(given) = reader.non_empty_text(&DECODER)? {
        return Ok(Some(DecoderRef::of(&given)));
    }
    if reader.purpose() == Purpose::Feed {
        return Ok(None);
    }
    if let Some(preset) = reader.preset() {
        return preset.decoder.clone().map(Some).map_err(|why| {
            let message = format!("missing, and {why}");
            reader.fault(DECODER.name, message, format!("give {}", DECODER.expected))
        });
    }
    match source {
        Ok(Source::Files { .. } | Source::S3(_) | Source::Index(_)) if reader.has(&SHA256) => {
            Err(needs(reader, &SHA256, "decoder"))
        }
        Ok(Source::Files { .. } | Source::S3(_) | Source::Index(_) | Source::Mix(_)) => Ok(None),
        // For FIFOs and standard input, the run would wait for the first bytes before it serves a
        // channel.
        Ok(Source::Fifo { .. } | Source::Stdin { .. }) => reader.required(&DECODER, Ok(None)),
        // The fault of the source is reported.
        Err(_) => Ok(None),
    }
}

fn sha256(reader: &Reader) -> ReadResult<Option<Digest>> {
    let Some(given) = reader.text(SHA256.name, SHA256.expected)? else { return Ok(None) };
    given.text.parse().map(Some).map_err(|found: String| {
        let remedy = "`sha256sum FILE.wasm` prints it, and so does `pipemill plugin inspect`";
        reader.wrong(SHA256.name, SHA256.expected, &found, remedy.to_owned())
    })
}

/// The decoders that may come with the data.
fn trust(reader: &Reader, source: &ReadResult<Source>) -> ReadResult<Vec<Digest>> {
    let Some(given) = reader.texts(&TRUST)? else { return Ok(Vec::new()) };
    let refuse = |why: &str| {
        let remedy = "leave one of them out".to_owned();
        Err(reader.fault(TRUST.name, format!("does not go with {why}"), remedy))
    };
    if reader.has(&DECODER) {
        return refuse("`decoder`: it is for decoders that come with the data");
    }
    if let Ok(Source::Index(_)) = source {
        return refuse("an index, which names its decoder");
    }
    let digest = |text: String| {
        Digest::of_identity(&text).map_err(|_| {
            let remedy = "`pipemill plugin inspect` prints the SHA-256 of a plugin".to_owned();
            reader.wrong(TRUST.name, TRUST.expected, &format!("{text:?}"), remedy)
        })
    };
    given.into_iter().map(digest).collect()
}

/// The decoder's options as text, and the place of each.
type Options = (Vec<(String, String)>, Vec<TextPosition>);

fn options(reader: &Reader) -> ReadResult<Options> {
    let table = reader.table(&OPTIONS, "write options = { name = \"value\" }")?;
    let names = table.names();
    let places = names.iter().map(|name| table.place(name)).collect();
    let value = |name: &&str| table.scalar(name, "a string, a whole number, true or false");
    let values: Vec<_> = names.iter().map(value).collect();
    let pairs = names.iter().zip(values).map(|(name, value)| Ok((name.to_string(), value?)));
    Ok((pairs.collect::<ReadResult<_>>()?, places))
}

fn on_error(reader: &Reader, policy: ReadResult<Policy>) -> ReadResult<OnError> {
    let file = reader.path(&QUARANTINE);
    match policy? {
        Policy::Quarantine => Ok(OnError::Quarantine(reader.required(&QUARANTINE, file)?)),
        _ if reader.has(&QUARANTINE) => {
            Err(needs(reader, &QUARANTINE, "on_error = \"quarantine\""))
        }
        Policy::Skip => Ok(OnError::Skip),
        Policy::Fail => Ok(OnError::Fail),
    }
}

fn max_errors(
    reader: &Reader,
    policy: ReadResult<Policy>,
    on_plugin_error: ReadResult<OnPluginError>,
) -> ReadResult<u64> {
    let number = reader.number(&MAX_ERRORS);
    match (policy, on_plugin_error) {
        (Ok(Policy::Fail), Ok(OnPluginError::Fail)) if reader.has(&MAX_ERRORS) => {
            let wanted =
                "on_error = \"skip\" or \"quarantine\", or on_plugin_error = \"skip-object\"";
            Err(needs(reader, &MAX_ERRORS, wanted))
        }
        (Ok(Policy::Fail), Ok(OnPluginError::Fail)) => Ok(0),
        _ => number,
    }
}

fn consumers(reader: &Reader, mode: ReadResult<Mode>) -> ReadResult<u32> {
    let number = reader.number(&CONSUMERS);
    if reader.has(&CONSUMERS) && matches!(mode, Ok(Mode::Share)) {
        return Err(needs(reader, &CONSUMERS, "mode = \"broadcast\" or \"rank\""));
    }
    if !reader.has(&CONSUMERS) && matches!(mode, Ok(Mode::Rank)) {
        return reader.required(&CONSUMERS, Ok(None));
    }
    Ok(number? as u32) // its range fits
}

fn batch(reader: &Reader) -> ReadResult<Option<BatchSize>> {
    let records = reader.optional_number(&BATCH);
    let (tail, across) = (reader.choice(&TAIL), reader.choice(&BATCH_ACROSS));
    let Some(records) = records? else {
        let alone: [&dyn Key; 2] = [&TAIL, &BATCH_ACROSS];
        let faults: Vec<_> = alone
            .into_iter()
            .filter(|key| reader.has(*key))
            .map(|key| needs(reader, key, "batch"))
            .collect();
        return faults.into_iter().next().map_or(Ok(None), Err);
    };
    // The key's range fits into the type.
    Ok(Some(BatchSize { records: records as usize, tail: tail?, across: across? }))
}

/// Checks that ranks can get equally many batches, and that there are enough slots for them.
fn check_ranks(
    reader: &Reader,
    consumers: u32,
    batch: Option<BatchSize>,
    ring: &Ring,
) -> ReadResult<()> {
    let Some(batch) = batch else {
        let remedy =
            "the ranks get the same batches in each run if these have as many records".to_owned();
        return Err(reader.fault(MODE.name, format!("\"rank\" needs {}", BATCH.name), remedy));
    };
    if batch.tail == Tail::Keep {
        let message = "\"rank\" needs tail = \"drop\" or \"pad\"".to_owned();
        let remedy = "all ranks get equally many batches, so say what happens to the last ones";
        return Err(reader.fault(MODE.name, message, remedy.to_owned()));
    }
    let needed = slots_of_ranks(consumers, ring.credits.min(2), Some(batch.tail));
    if ring.slots < needed {
        let message = format!("{} are too few for {consumers} ranks", ring.slots);
        return Err(reader.fault(SLOTS.name, message, format!("give at least {needed}")));
    }
    Ok(())
}

/// Reads where the host writes how far consumers have come.
fn checkpoint(
    reader: &Reader,
    batch: &ReadResult<Option<BatchSize>>,
    taken: &mut Taken,
) -> ReadResult<Option<Checkpoint>> {
    if !reader.has(&CHECKPOINT) {
        return Ok(None);
    }
    let remedy = "write checkpoint = { path = \"FILE\" }";
    let table = reader.table(&CHECKPOINT, remedy)?.refuse_unknown_keys(&CHECKPOINT_TABLE);
    let path = table.required(&CHECKPOINT_PATH, table.path(&CHECKPOINT_PATH));
    let every = table.number(&EVERY);
    if let Ok(None) = batch {
        return Err(needs(reader, &CHECKPOINT, BATCH.name));
    }
    let (path, every) = (path?, Duration::from_millis(every?));
    if let Some((_, first)) = taken.checkpoints.iter().find(|(other, _)| *other == path) {
        let message = format!("the channel in line {} writes this file already", first.line);
        let remedy = "give each channel a file of its own".to_owned();
        return Err(table.fault(CHECKPOINT_PATH.name, message, remedy));
    }
    taken.checkpoints.push((path.clone(), reader.place(CHECKPOINT.name)));
    Ok(Some(Checkpoint { path, every }))
}

/// Reads the number of workers.
fn workers(reader: &Reader, source: &ReadResult<Source>) -> ReadResult<WorkerCount> {
    if !reader.is_count(&WORKERS) {
        return match reader.non_empty_text(&WORKERS)? {
            None => Ok(WorkerCount::Exactly(1)),
            Some(word) if word == AUTO.word(()) => Ok(WorkerCount::Auto),
            Some(word) => {
                let found = format!("\"{word}\"");
                Err(reader.wrong(WORKERS.name, WORKERS.expected, &found, String::new()))
            }
        };
    }
    let count = reader.optional_number(&WORKER_COUNT)?.unwrap_or(1) as u32;
    match source {
        Ok(source) if count > 1 && !source.can_reread() => {
            let message = "only files and objects in S3 are decoded by several workers";
            let remedy = match source {
                Source::Mix(_) => "set it in the channels that are mixed",
                _ => "leave it out, or bring the input as files",
            };
            Err(reader.fault(WORKERS.name, message.to_owned(), remedy.to_owned()))
        }
        _ => Ok(WorkerCount::Exactly(count)),
    }
}

/// Reads the order in which workers' records leave.
fn order(
    reader: &Reader,
    workers: &ReadResult<WorkerCount>,
    batch: &ReadResult<Option<BatchSize>>,
    shuffle: &ReadResult<Option<Shuffle>>,
) -> ReadResult<RecordOrder> {
    let order = reader.choice(&ORDER)?;
    if order == RecordOrder::Strict {
        return Ok(order);
    }
    if let Ok(WorkerCount::Exactly(1)) = workers {
        return Err(needs(reader, &ORDER, "`workers` of 2 or more"));
    }
    let word = ORDER.word(order);
    let is_of_object = |size: BatchSize| size.across == BatchAcross::Object;
    let (other, why) = if matches!(batch, Ok(Some(size)) if is_of_object(*size)) {
        (BATCH_ACROSS.name, "mixes the records of objects, and `batch_across` is \"object\"")
    } else if matches!(shuffle, Ok(Some(Shuffle { shards: Some(_), .. }))) {
        ("`shards`", "is another one in each run, and that of shards is the same on all hosts")
    } else if matches!(shuffle, Ok(Some(Shuffle { window: Some(_), .. }))) {
        ("the window", "is another one in each run, and that of a window follows from its seed")
    } else if reader.has(&CHECKPOINT) {
        (CHECKPOINT.name, "leaves no place to go on at, and `checkpoint` keeps one")
    } else {
        return Ok(order);
    };
    let remedy = format!("leave out {other}, or set {} = \"strict\"", ORDER.name);
    Err(reader.fault(ORDER.name, format!("\"{word}\" {why}"), remedy))
}

/// Reads the random order of objects and records, and sets the source to shuffle its objects.
fn shuffle(
    reader: &Reader,
    batch: &ReadResult<Option<BatchSize>>,
    workers: &ReadResult<WorkerCount>,
    source: &mut ReadResult<Source>,
) -> ReadResult<Option<Shuffle>> {
    if !reader.has(&SHUFFLE) {
        return Ok(None);
    }
    let remedy = "write shuffle = { seed = 1 }";
    let table = reader.table(&SHUFFLE, remedy)?.refuse_unknown_keys(&SHUFFLE_TABLE);
    let seed = table.required(&SEED, table.optional_number(&SEED));
    let window = window(&table, batch);
    let blocks = blocks(reader, &table, batch, source);
    let shards = table.optional_number(&SHARDS);
    let (seed, window, blocks) = (seed?, window?, blocks?);
    // The key's range fits into the type.
    let shards = shards?.map(|shards| shards as u32);
    if let Some(shards) = shards {
        shards::check(&table, shards, blocks, batch, workers, source)?;
    }
    if let Ok(source) = source
        && !source.shuffle_objects(seed, blocks)
        && window.is_none()
    {
        let message = "the source has one object at a time, so there is nothing to shuffle";
        let remedy = "add a window, such as window = \"256MiB\", to shuffle its records, or leave \
                      this out";
        return Err(reader.fault(SHUFFLE.name, message.to_owned(), remedy.to_owned()));
    }
    Ok(Some(Shuffle { seed, blocks, shards, window }))
}

/// The size of the blocks that are shuffled.
fn blocks(
    reader: &Reader,
    table: &Reader,
    batch: &ReadResult<Option<BatchSize>>,
    source: &ReadResult<Source>,
) -> ReadResult<Option<u64>> {
    let Some(blocks) = table.optional_number(&BLOCKS)? else { return Ok(None) };
    if let Ok(source) = source
        && !matches!(source, Source::Index(_))
    {
        let message = "only an index knows where the blocks of objects begin".to_owned();
        let remedy = "make one with `pipemill index`, and read from it, or leave this out";
        return Err(table.fault(BLOCKS.name, message, remedy.to_owned()));
    }
    if let Ok(Some(BatchSize { across: BatchAcross::Object, .. })) = batch {
        let message = "batches of one object each can't have records of blocks".to_owned();
        let remedy = "set batch_across = \"epoch\", or leave this out".to_owned();
        return Err(table.fault(BLOCKS.name, message, remedy));
    }
    let part = source.as_ref().ok().and_then(Source::reading).and_then(|one| one.order.part);
    if part.is_some_and(|part| part.balance == Balance::Size) {
        let message = "parts of blocks have equal numbers of records".to_owned();
        let table = reader.table(&SOURCE, "")?;
        return Err(table.fault(BALANCE.name, message, "leave it out".to_owned()));
    }
    Ok(Some(blocks))
}

fn window(table: &Reader, batch: &ReadResult<Option<BatchSize>>) -> ReadResult<Option<Window>> {
    let window = if table.is_count(&WINDOW) {
        table.optional_number(&WINDOW_RECORDS)?.map(Window::Records)
    } else {
        table.optional_number(&WINDOW_BYTES)?.map(Window::Bytes)
    };
    match batch {
        Ok(None) if window.is_some() => {
            let remedy = "set the channel's `batch`, or leave this out".to_owned();
            Err(table.fault(WINDOW.name, format!("needs `{}`", BATCH.name), remedy))
        }
        Ok(Some(size)) if window.is_some() && size.across == BatchAcross::Object => {
            let across = BATCH_ACROSS.word(BatchAcross::Object);
            let message = format!(
                "mixes the records of objects, and `{}` is \"{across}\"",
                BATCH_ACROSS.name
            );
            let remedy = "leave one of them out".to_owned();
            Err(table.fault(WINDOW.name, message, remedy))
        }
        _ => Ok(window),
    }
}

/// Records that a key has no effect without another.
fn needs(reader: &Reader, key: &dyn Key, other: &str) -> Reported {
    let remedy = "set that, or leave this out".to_owned();
    reader.fault(key.name(), format!("needs {other}"), remedy)
}

fn ring(channel: &Reader, batch: &ReadResult<Option<BatchSize>>) -> ReadResult<Ring> {
    let reader = channel
        .table(&RING, "begin it with a line [channel.ring]")?
        .refuse_unknown_keys(&RING_TABLE);
    let slots = reader.number(&SLOTS);
    let credits = reader.optional_number(&CREDITS).map(|credits| {
        // The default is less if there are few slots.
        let most = slots.as_ref().map_or(u64::MAX, |slots| slots - SPARE_SLOTS);
        credits.unwrap_or(CREDITS.default.min(most))
    });
    let linger = reader.number(&LINGER);
    let slot_size = reader.number(&SLOT_SIZE);
    if let Ok(slot_size) = slot_size
        && !slot_size.is_multiple_of(SLOT_STEP)
    {
        let expected = format!("a multiple of {}", show_size(SLOT_STEP));
        let nearest = show_size(slot_size.next_multiple_of(SLOT_STEP));
        let remedy = format!("the next one is \"{nearest}\"");
        reader.wrong(SLOT_SIZE.name, &expected, &format!("\"{}\"", show_size(slot_size)), remedy);
    }
    if let (Ok(slots), Ok(credits)) = (slots, credits)
        && slots < credits + SPARE_SLOTS
    {
        let least = credits + SPARE_SLOTS;
        let message = format!("{slots} are too few for {credits} credits");
        let remedy = format!("give at least {least} (credits + {SPARE_SLOTS}), or fewer credits");
        reader.fault(SLOTS.name, message, remedy);
    }
    if let (Ok(slots), Ok(slot_size)) = (slots, slot_size)
        && slots * slot_size > MAX_RING_BYTES
    {
        let message =
            format!("{slots} of {} are {}", show_size(slot_size), show_size(slots * slot_size));
        let remedy = format!(
            "a ring has at most {}: give fewer or smaller slots",
            show_size(MAX_RING_BYTES)
        );
        reader.fault(SLOTS.name, message, remedy);
    }
    Ok(Ring {
        // The keys' ranges fit into the types.
        slots: slots? as u32,
        slot_size: slot_size? as usize,
        fits_batches: !reader.has(&SLOT_SIZE) && matches!(batch, Ok(Some(_))),
        credits: credits? as u32,
        linger: Duration::from_millis(linger?),
    })
}

/// `limits.batches`: at least the memory that the channel always takes.
fn batch_memory(
    reader: &Reader,
    ring: &ReadResult<Ring>,
    shuffle: &ReadResult<Option<Shuffle>>,
) -> ReadResult<Option<u64>> {
    let Some(batches) = reader.optional_number(&BATCHES)? else { return Ok(None) };
    let (Ok(ring), Ok(shuffle)) = (ring, shuffle) else { return Ok(Some(batches)) };
    let slots = u64::from(ring.slots) * ring.slot_size as u64;
    let window = shuffle.map_or(0, |shuffle| shuffle.window_bytes());
    if batches >= slots + window {
        return Ok(Some(batches));
    }
    let window = match window {
        0 => String::new(),
        bytes => format!(" and the window of {}", show_size(bytes)),
    };
    let message = format!(
        "{} is less than the ring's slots, {}{window}",
        show_size(batches),
        show_size(slots)
    );
    let remedy = "give more, or lower `ring.slots`, `ring.slot_size` or `window`".to_owned();
    Err(reader.fault(BATCHES.name, message, remedy))
}

fn limits(
    channel: &Reader,
    max_record: &ReadResult<u64>,
    ring: &ReadResult<Ring>,
    shuffle: &ReadResult<Option<Shuffle>>,
) -> ReadResult<(Limits, Option<u64>)> {
    let remedy = "begin it with a line [channel.limits]";
    let reader = channel.table(&LIMITS, remedy)?.refuse_unknown_keys(&LIMITS_TABLE);
    let memory = reader.number(&MEMORY);
    let call_timeout = reader.number(&CALL_TIMEOUT);
    let output = reader.optional_number(&OUTPUT);
    let batches = batch_memory(&reader, ring, shuffle);
    let max_record = (*max_record)?;
    let least = 2 * max_record + MEMORY_SPARE;
    if let Ok(memory) = memory
        && memory < least
    {
        let whose = if reader.has(&MEMORY) { "" } else { " (the default)" };
        let (memory, record) = (show_size(memory), show_size(max_record));
        let message = format!("{memory}{whose} is too little for max_record = {record}");
        let (least, spare) = (show_size(least), show_size(MEMORY_SPARE));
        let remedy = format!("give at least \"{least}\" (2 × max_record + {spare})");
        reader.fault(MEMORY.name, message, remedy);
    }
    if let Ok(Some(output)) = output
        && output < max_record
    {
        let message =
            format!("{} is less than max_record = {}", show_size(output), show_size(max_record));
        reader.fault(OUTPUT.name, message, "give at least as much".to_owned());
    }
    let slot_size = ring.as_ref().map_err(|reported| *reported)?.slot_size as u64;
    let limits = Limits {
        memory: memory?,
        call_timeout: Duration::from_millis(call_timeout?),
        // The input of a call is about as long as a record or a slot.
        output: output?.unwrap_or(4 * max_record.max(slot_size)),
        record: max_record,
    };
    Ok((limits, batches?))
}
