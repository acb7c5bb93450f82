//! Properties of all texts and all configurations: no text makes the parser panic, a configuration
//! that was shown can be read back, and so can single values; variables are replaced.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};

use pipemill_channel::{OnError, OnPluginError, Until, Window};
use pipemill_decode::{Digest, Limits};
use pipemill_ring::host::slots_of_ranks;
use pipemill_source::cache::CacheSettings;
use pipemill_source::{Balance, Compression, ListPart, Location, Order, Pattern, ReadSettings, s3};
use pipemill_types::{AddedField, BatchAcross, BatchSize, Companions, Mode, Tail};

use super::super::key::Number;
use super::super::model::{Checkpoint, Ring};
use super::super::{keys, vars};
use super::*;

fn any_in_range<D>(key: &Number<D>) -> RangeInclusive<u64> {
    key.min..=key.max
}

fn millis<D>(key: &Number<D>) -> impl Strategy<Value = Duration> + use<D> {
    any_in_range(key).prop_map(Duration::from_millis)
}

/// Any text that can be a path or a value. Many characters need an escape.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z/.]{1,12}",
        "[\"'\\\\$\\{\\}\\n\\t a-zäß☃\u{1}\u{7f}\u{85}]{1,12}",
        "[^\u{0}]{1,9}"
    ]
}

fn compression() -> impl Strategy<Value = Compression> {
    select(keys::COMPRESSION.words).prop_map(|(_, compression)| compression)
}

fn source() -> impl Strategy<Value = Source> {
    let fifo = (
        text(),
        option::of(1..=1_000_000u32),
        0..=1_000_000u32,
        option::of(millis(&keys::OPEN_TIMEOUT)),
        option::of(millis(&keys::IDLE_TIMEOUT)),
        any_in_range(&keys::PIPE_SIZE),
        compression(),
        option::of(text()),
    );
    let fifo = fifo.prop_map(
        |(dir, epochs, first_epoch, open_timeout, idle_timeout, pipe, compression, file)| {
            let (dir, pipe_size, epoch_file) = (dir.into(), pipe as usize, file.map(Into::into));
            Source::Fifo {
                dir,
                epochs,
                first_epoch,
                open_timeout,
                idle_timeout,
                pipe_size,
                compression,
                epoch_file,
            }
        },
    );
    let pattern = prop_oneof![
        text().prop_map(|path| Pattern::File(path.into())),
        vec(text(), 1..4)
            .prop_map(|paths| { Pattern::Files(paths.into_iter().map(Into::into).collect()) }),
        "[a-z$*?]{1,3}/[*?]".prop_map(Pattern::Glob),
        text().prop_map(|path| Pattern::Folder(path.into())),
    ];
    // `**` is valid only as a whole component of a path.
    let pattern = pattern.prop_filter("a valid pattern", |pattern| match pattern {
        Pattern::Glob(pattern) => !pattern.contains("**"),
        _ => true,
    });
    let files = (pattern, reading(), any::<bool>()).prop_map(|(pattern, mut reading, hidden)| {
        let is_listed = !matches!(pattern, Pattern::File(_) | Pattern::Files(_));
        reading.hidden = hidden && is_listed;
        reading.relist &= is_listed;
        if matches!(pattern, Pattern::File(_)) {
            reading.order = Order::default();
        }
        Source::Files { pattern, reading }
    });
    prop_oneof![fifo, files, s3(), index(), beside()]
}

fn index() -> impl Strategy<Value = Source> {
    (text(), option::of(text()), s3(), reading(), skip()).prop_map(
        |(file, root, s3, reading, skip)| {
            let Source::S3(settings) = s3 else { unreachable!("it makes such a source") };
            let reading = ReadSettings {
                compression: Compression::Auto,
                wrap: false,
                hidden: false,
                relist: false,
                records: reading.records.clone().filter(|_| settings.cache.is_none()),
                ..reading
            };
            let selection = s3::Selection::Objects(Vec::new());
            let settings = s3::Settings { selection, reading, ..*settings };
            let file = Location::of_name(&file).unwrap_or_else(|_| Location::File("x".into()));
            let root = root.map(Into::into);
            Source::Index(Box::new(IndexSource { file, root, data: None, skip, settings }))
        },
    )
}

/// Records that are left out.
fn skip() -> impl Strategy<Value = SkipList> {
    let range = (0..u64::MAX - 1_000, 1..1_000_u64).prop_map(|(from, many)| from..from + many);
    let file = |name: String| {
        SkipList::File(Location::of_name(&name).unwrap_or_else(|_| Location::File("x".into())))
    };
    prop_oneof![vec(range, 0..3).prop_map(SkipList::Records), text().prop_map(file)]
}

/// An index that lies beside its data.
fn beside() -> impl Strategy<Value = Source> {
    (index(), text(), option::of(s3())).prop_map(|(index, folder, prefix)| {
        let Source::Index(mut index) = index else { unreachable!("it makes such a source") };
        let data = match prefix {
            Some(Source::S3(settings)) => match settings.selection {
                s3::Selection::Prefixes(mut all) if all.len() == 1 => {
                    all.pop().map(IndexedData::Prefix)
                }
                _ => None,
            },
            _ => None,
        };
        let data = data.unwrap_or_else(|| {
            // A folder has no keys of S3.
            let none = s3::Selection::Objects(Vec::new());
            let reading = index.settings.reading.clone();
            index.settings = s3::Settings { reading, ..s3::Settings::new(none) };
            IndexedData::Folder(folder.into())
        });
        Source::Index(Box::new(IndexSource {
            file: data.index(),
            root: None,
            data: Some(data),
            ..*index
        }))
    })
}

fn reading() -> impl Strategy<Value = ReadSettings> {
    let part = (1..=1_000_001u32).prop_flat_map(|count| {
        let balance = select(keys::BALANCE.words).prop_map(|(_, balance)| balance);
        (0..count.min(1_000_001), balance).prop_map(move |(index, balance)| ListPart {
            index,
            count,
            balance,
        })
    });
    let order = option::of(part).prop_map(|part| Order { part, ..Order::default() });
    (1..=1_000_000u32, compression(), order, any::<(bool, bool)>(), cache()).prop_map(
        |(epochs, compression, order, (wrap, relist), records)| ReadSettings {
            epochs,
            compression,
            order,
            wrap,
            hidden: false,
            relist,
            inventory: None,
            inventories: None,
            on_demand: None,
            divided_from: None,
            companions: Companions::default(),
            records,
        },
    )
}

fn cache() -> impl Strategy<Value = Option<CacheSettings>> {
    let cache = (text(), any_in_range(&keys::CACHE_SIZE));
    option::of(cache.prop_map(|(path, size)| CacheSettings { path: path.into(), size }))
}

fn s3() -> impl Strategy<Value = Source> {
    let address = |key: &'static str| {
        ("[a-z0-9.-]{1,9}", key, option::of("[A-Za-z0-9]{1,9}"))
            .prop_map(|(bucket, key, version)| s3::Address { bucket: bucket.into(), key, version })
    };
    const KEY: &str = "[^\u{0}?]{1,9}";
    let what = prop_oneof![
        vec(address("[^\u{0}?]{0,9}"), 1..4).prop_map(|mut addresses| {
            addresses.iter_mut().for_each(|address| address.version = None);
            s3::Selection::Prefixes(addresses)
        }),
        vec(address(KEY), 1..4).prop_map(s3::Selection::Objects),
        address(KEY).prop_map(s3::Selection::Manifest),
        (address(KEY), vec(text(), 1..16))
            .prop_map(|(manifest, attributes)| s3::Selection::Augmented { manifest, attributes }),
    ];
    let words = (
        select(keys::ADDRESSING.words).prop_map(|(_, addressing)| addressing),
        select(keys::ON_CHANGE.words).prop_map(|(_, on_change)| on_change),
    );
    let access = (
        option::of(text()),
        option::of("https?://[a-z.]{1,9}(:[0-9]{1,4})?"),
        option::of(text()),
        any::<(bool, bool)>(),
    );
    let numbers = (
        any_in_range(&keys::PART_SIZE),
        any_in_range(&keys::CONCURRENCY),
        millis(&keys::STALL_TIMEOUT),
        millis(&keys::RETRY_TIMEOUT),
        any::<(bool, bool)>(),
    );
    let inventory = option::of(address(KEY).prop_map(Box::new)).boxed();
    let numbers = (numbers, cache(), inventory).boxed();
    (what, words, access, numbers, reading()).prop_map(
        |(what, (addressing, on_change), access, (numbers, cache, inventory), mut reading)| {
            if let (false, Some(part)) =
                (matches!(what, s3::Selection::Prefixes(_)), &mut reading.order.part)
            {
                part.balance = Balance::Count;
            }
            // Only objects that are listed have these keys.
            let is_listed = matches!(what, s3::Selection::Prefixes(_));
            reading.hidden = numbers.4.0 && is_listed;
            reading.relist &= is_listed;
            reading.inventory = inventory.filter(|_| is_listed);
            reading.records = reading.records.filter(|_| cache.is_none());
            let (region, endpoint, profile, (anonymous, requester_pays)) = access;
            let (part_size, concurrency, stall_timeout, retry_timeout, (verify, allow_empty)) =
                numbers;
            let access =
                s3::Access { region, endpoint, profile, addressing, anonymous, requester_pays };
            let concurrency = concurrency as usize;
            Source::S3(Box::new(s3::Settings {
                channel: None,
                selection: what,
                access,
                reading,
                part_size,
                concurrency,
                stall_timeout,
                retry_timeout,
                verify,
                on_change,
                allow_empty,
                cache,
            }))
        },
    )
}

fn ring() -> impl Strategy<Value = Ring> {
    let slot_steps =
        (keys::SLOT_SIZE.min / keys::SLOT_STEP)..=(keys::SLOT_SIZE.max / keys::SLOT_STEP);
    let size = option::of(slot_steps);
    (any_in_range(&keys::CREDITS), 0..=4_096u64, size, millis(&keys::LINGER)).prop_map(
        |(credits, more, size, linger)| {
            let slot_size =
                size.map_or(keys::SLOT_SIZE.default, |slot_steps| slot_steps * keys::SLOT_STEP);
            // The largest number of slots that the range and the size of a ring allow.
            let most_slots = keys::SLOTS.max.min(keys::MAX_RING_BYTES / slot_size);
            let credits = credits.min(most_slots - keys::SPARE_SLOTS);
            let least_slots = (credits + keys::SPARE_SLOTS).max(keys::SLOTS.min);
            let slots = (least_slots + more).min(most_slots) as u32;
            let (slot_size, credits) = (slot_size as usize, credits as u32);
            Ring { slots, slot_size, fits_batches: size.is_none(), credits, linger }
        },
    )
}

fn limits(max_record: u64) -> impl Strategy<Value = Limits> {
    let memory = (2 * max_record + keys::MEMORY_SPARE)..=keys::MEMORY.max;
    let output = max_record..=keys::OUTPUT.max;
    (memory, millis(&keys::CALL_TIMEOUT), output).prop_map(move |(memory, call_timeout, output)| {
        Limits { memory, call_timeout, output, record: max_record }
    })
}

fn channel() -> impl Strategy<Value = Channel> {
    let on_error = prop_oneof![
        Just(OnError::Fail),
        Just(OnError::Skip),
        text().prop_map(|path| OnError::Quarantine(path.into())),
    ];
    let on_plugin_error = prop_oneof![Just(OnPluginError::Fail), Just(OnPluginError::SkipObject)];
    let policy = (on_error, on_plugin_error, any_in_range(&keys::MAX_ERRORS)).prop_map(
        |(on_error, on_plugin_error, max_errors)| match (&on_error, on_plugin_error) {
            (OnError::Fail, OnPluginError::Fail) => (on_error, on_plugin_error, 0),
            _ => (on_error, on_plugin_error, max_errors),
        },
    );
    let mode = prop_oneof![
        Just((Mode::Share, 1)),
        any_in_range(&keys::CONSUMERS).prop_map(|consumers| (Mode::Broadcast, consumers as u32)),
    ];
    let options = vec((text(), text()), 0..4).prop_map(|mut options| {
        options.sort();
        options.dedup_by(|a, b| a.0 == b.0);
        options
    });
    let window = prop_oneof![
        any_in_range(&keys::WINDOW_BYTES).prop_map(Window::Bytes),
        any_in_range(&keys::WINDOW_RECORDS).prop_map(Window::Records),
    ];
    let across = select(keys::BATCH_ACROSS.words).prop_map(|(_, across)| across);
    let tail = select(keys::TAIL.words).prop_map(|(_, tail)| tail);
    let batch = option::of((any_in_range(&keys::BATCH), tail, across)).prop_map(|batch| {
        batch.map(|(records, tail, across)| BatchSize { records: records as usize, tail, across })
    });
    let shuffle = option::of((any_in_range(&keys::SEED), option::of(window)));
    let workers = prop_oneof![
        Just(WorkerCount::Auto),
        any_in_range(&keys::WORKER_COUNT).prop_map(|count| WorkerCount::Exactly(count as u32)),
    ];
    let order = (batch, shuffle, workers, select(keys::ORDER.words));
    let decoder = (text(), option::of(any::<[u8; 8]>().prop_map(|bytes| Digest::of(&bytes))));
    let record =
        any_in_range(&keys::MAX_RECORD).prop_flat_map(|record| (Just(record), limits(record)));
    let name = "[A-Za-z0-9._-]{1,64}";
    (name, source(), decoder, options, policy, mode, ring(), record, order).prop_map(
        |(
            name,
            mut source,
            (decoder, sha256),
            options,
            (on_error, on_plugin_error, max_errors),
            (mode, consumers),
            ring,
            record,
            (batch, shuffle, workers, (_, order)),
        )| {
            let (max_record, limits) = record;
            let mixes = batch.is_some_and(|size| size.across == BatchAcross::Epoch);
            let is_of_objects = batch.is_some_and(|size| size.across == BatchAcross::Object);
            let part = source.reading().and_then(|reading| reading.order.part);
            let is_by_size = part.is_some_and(|part| part.balance == Balance::Size);
            let has_blocks = matches!(source, Source::Index(_)) && !is_of_objects && !is_by_size;
            let shuffle = shuffle.map(|(seed, window)| Shuffle {
                seed,
                blocks: (has_blocks && seed % 2 == 0).then_some(keys::BLOCKS.min + seed % 1_000),
                shards: None,
                window: window.filter(|_| mixes),
            });
            let shuffle = shuffle.filter(|shuffle| {
                source.shuffle_objects(shuffle.seed, shuffle.blocks) || shuffle.window.is_some()
            });
            let can_reread = source.can_reread();
            let workers = if can_reread { workers } else { WorkerCount::Exactly(1) };
            let has_window = shuffle.is_some_and(|shuffle| shuffle.window.is_some());
            let is_of_objects = batch.is_some_and(|size| size.across == BatchAcross::Object);
            let is_strict = workers == WorkerCount::Exactly(1) || has_window || is_of_objects;
            let divides = |_: BatchSize| max_record % 2 == 0;
            let shuffle = shuffle.map(|shuffle| match source.reading() {
                Some(reading) if shuffle.blocks.is_some() && is_strict && !has_window => {
                    let part = reading.order.part;
                    let count = part.map_or(1, |part| part.count);
                    let divides = batch.is_some_and(divides) && count <= keys::SHARDS.max as u32;
                    Shuffle { shards: divides.then_some(count), ..shuffle }
                }
                _ => shuffle,
            });
            let is_strict = is_strict || shuffle.is_some_and(|shuffle| shuffle.shards.is_some());
            let workers = match shuffle {
                Some(Shuffle { shards: Some(_), .. }) => WorkerCount::Exactly(1),
                _ => workers,
            };
            let new = Channel::new(&name, source, DecoderRef::of(&decoder));
            let ring = Ring { fits_batches: ring.fits_batches && batch.is_some(), ..ring };
            Channel {
                workers,
                order: if is_strict { keys::ORDER.default } else { order },
                sha256,
                options,
                on_error,
                on_plugin_error,
                max_errors,
                max_record,
                mode,
                consumers,
                batch,
                shuffle,
                ring,
                limits,
                ..new
            }
        },
    )
}

/// A channel, perhaps with a checkpoint, an object to learn from, added fields, or without a
/// decoder.
fn whole_channel() -> impl Strategy<Value = Channel> {
    let checkpoint = option::of((text(), millis(&keys::EVERY)));
    let ranks = option::of(1..5u32);
    let learn_from = option::of("[^\u{0}]{1,9}");
    let partitions = ["date=utf8", "n=int64", "a\"b $ü=float32"];
    let partitions = partitions.map(|word| AddedField::from_word(word).expect("it is one"));
    let added = [&AddedField::ALL[..], &partitions].concat();
    let added = subsequence(added, 0..=5).prop_shuffle();
    let trust = vec(any::<u8>().prop_map(|byte| Digest::of(&[byte])), 0..3);
    let found = (any::<bool>(), trust);
    (channel(), checkpoint, learn_from, found, ranks, added).prop_map(
        |(mut channel, checkpoint, learn_from, (is_found, trust), ranks, mut added)| {
            let has_index = matches!(channel.source, Source::Index(_));
            let has_folders =
                has_index || matches!(channel.source, Source::Files { .. } | Source::S3(_));
            added.retain(|field| match field {
                AddedField::Index => has_index,
                AddedField::Object => true,
                AddedField::Partition(_) => has_folders,
            });
            channel.added_fields = added;
            if let (Some(ranks), Some(BatchSize { tail: tail @ (Tail::Drop | Tail::Pad), .. })) =
                (ranks, channel.batch)
                && slots_of_ranks(ranks, channel.ring.credits.min(2), Some(tail))
                    <= channel.ring.slots
            {
                (channel.mode, channel.consumers) = (Mode::Rank, ranks);
            }
            if let (Some((path, every)), Some(_)) = (checkpoint, channel.batch) {
                // Each channel has a file of its own.
                let path = format!("{}/{path}", channel.name).into();
                channel.checkpoint = Some(Checkpoint { path, every });
                channel.order = keys::ORDER.default;
            }
            if matches!(channel.source, Source::Files { .. }) {
                channel.learn_from = learn_from;
            }
            if is_found && channel.sha256.is_none() && channel.source.can_reread() {
                channel.decoder = None;
                if !matches!(channel.source, Source::Index(_)) {
                    channel.trust = trust;
                }
            }
            channel
        },
    )
}

/// The channel as a part of a mix.
fn mixed(number: usize, until: Until, all_epochs: u32, channel: Channel) -> Channel {
    let epochs = if matches!(until, Until::Records(_)) { u32::MAX } else { all_epochs };
    let mut source = channel.source.clone();
    match &mut source {
        Source::Files { reading, .. } => reading.epochs = epochs,
        Source::S3(settings) => settings.reading.epochs = epochs,
        Source::Index(index) => index.settings.reading.epochs = epochs,
        Source::Fifo { epochs: own, first_epoch, epoch_file, .. } => {
            (*own, *first_epoch, *epoch_file) = ((epochs != u32::MAX).then_some(epochs), 0, None);
        }
        Source::Stdin { .. } | Source::Mix(_) => unreachable!("no channel here has such a source"),
    }
    let new = Channel::new("", source.clone(), DecoderRef::of("lines"));
    let shuffle = channel.shuffle.map(|shuffle| Shuffle { shards: None, window: None, ..shuffle });
    Channel {
        name: format!("{number}-{:.40}", channel.name),
        shuffle: shuffle.filter(|shuffle| source.shuffle_objects(shuffle.seed, shuffle.blocks)),
        source,
        order: keys::ORDER.default,
        mode: new.mode,
        consumers: new.consumers,
        batch: None,
        checkpoint: None,
        ring: new.ring,
        ..channel
    }
}

fn mix() -> impl Strategy<Value = Channel> {
    let until = prop_oneof![
        Just(Until::First),
        Just(Until::All),
        any_in_range(&keys::UNTIL_RECORDS).prop_map(Until::Records),
    ];
    let (least, most) = keys::WEIGHTS;
    let inputs = vec((channel(), least..=most), 2..4);
    let rest = (any_in_range(&keys::MIX_SEED), 1..=1_000_000u32, any_in_range(&keys::BATCH));
    ("[A-Za-z0-9._-]{1,50}", until, inputs, rest, ring()).prop_map(
        |(name, until, inputs, (seed, epochs, records), ring)| {
            let input = |(number, (channel, weight))| MixInput {
                channel: mixed(number, until, epochs, channel),
                weight,
            };
            let inputs = inputs.into_iter().enumerate().map(input).collect();
            let mix = Mix { inputs, until, seed, epochs, shards: None };
            let source = Source::Mix(Box::new(mix));
            let (tail, across) = (keys::TAIL.default, keys::BATCH_ACROSS.default);
            let batch = Some(BatchSize { records: records as usize, tail, across });
            let name = format!("mix-{name}");
            let new = Channel::new(&name, source, DecoderRef::of("lines"));
            Channel { decoder: None, batch, ring, ..new }
        },
    )
}

fn listen() -> impl Strategy<Value = Listen> {
    prop_oneof![
        any::<SocketAddr>()
            .prop_map(|address| match address {
                // The text of an address has no flow label and no scope.
                SocketAddr::V6(address) => SocketAddr::from((*address.ip(), address.port())),
                address => address,
            })
            .prop_map(Listen::Tcp),
        "/[a-z$]{0,100}".prop_map(|path| Listen::Unix(path.into())),
    ]
}

fn config() -> impl Strategy<Value = Config> {
    // At most one channel can read standard input.
    let stdin = option::of(compression());
    let budget = option::of(any_in_range(&keys::BUDGET));
    let times = (millis(&keys::STOP_TIMEOUT), millis(&keys::FAIL_GRACE));
    let connections = any_in_range(&keys::MAX_CONNECTIONS);
    let cores = option::of(any_in_range(&keys::CORES).prop_map(|cores| cores as u32));
    let open = (any::<bool>(), connections, cores);
    let top = (option::of("/[a-z$]{0,100}"), option::of(listen()), open, times, budget);
    (top, vec(whole_channel(), 1..4), stdin, option::of(mix())).prop_map(
        |(
            (
                socket,
                metrics,
                (allow_other_users, max, cores),
                (stop_timeout, fail_grace),
                s3_budget,
            ),
            mut channels,
            stdin,
            mix,
        )| {
            channels.sort_by(|a, b| a.name.cmp(&b.name));
            channels.dedup_by(|a, b| a.name == b.name);
            if let Some(compression) = stdin {
                channels[0].source = Source::Stdin { compression };
                channels[0].workers = WorkerCount::Auto;
                channels[0].learn_from = None;
                channels[0].added_fields.retain(|field| *field == AddedField::Object);
                channels[0].decoder.get_or_insert_with(|| DecoderRef::of("lines"));
                channels[0].trust.clear();
                let shuffle = channels[0].shuffle;
                let shuffle =
                    shuffle.map(|shuffle| Shuffle { blocks: None, shards: None, ..shuffle });
                channels[0].shuffle = shuffle.filter(|shuffle| shuffle.window.is_some());
            }
            channels.extend(mix);
            let (file, socket) = (String::new(), socket.map(PathBuf::from));
            let consumers: u32 = channels.iter().map(|channel| channel.consumers).sum();
            let max_connections = consumers.max(max as u32);
            Config {
                file,
                socket,
                allow_other_users,
                max_connections,
                cores,
                metrics,
                stop_timeout,
                fail_grace,
                s3_budget,
                channels,
            }
        },
    )
}

/// The configuration without places: they depend on the layout of the file.
fn without_places(mut config: Config) -> Config {
    config.file.clear();
    for channel in &mut config.channels {
        if matches!(channel.source, Source::Mix(_)) {
            // It decodes nothing.
            channel.decoder_place = TextPosition::default();
            channel.limits = Limits::default();
        }
        for decoded in channel.decoded_mut() {
            assert_eq!(decoded.options.len(), decoded.option_places.len());
            decoded.decoder_place = TextPosition::default();
            decoded.option_places.clear();
        }
    }
    config
}

/// Pieces of configurations in random order.
fn random_pieces() -> impl Strategy<Value = String> {
    let mut pieces = vec!["[[channel]]\n", "[channel.ring]\n", "[channel.limits]\n", "[channel]\n"];
    pieces.extend(["=", " = ", "{ ", " }", "[", "]", ",", ".", "\n", "\n\n", "\"", "'", "# ", "$"]);
    pieces.extend([
        "true",
        "1",
        "-1",
        "1.5",
        "\"4MiB\"",
        "\"2s\"",
        "\"${X}\"",
        "0x10",
        "2024-01-01",
    ]);
    pieces.extend(keys::TABLES.iter().flat_map(|table| table.names()));
    vec(select(pieces), 0..60).prop_map(|pieces| pieces.concat())
}

/// The file with many faults, some characters of which are removed or moved.
fn mangled() -> impl Strategy<Value = String> {
    vec((any::<Index>(), any::<Index>(), any::<Index>()), 1..6).prop_map(|cuts| {
        let mut text: Vec<char> = include_str!("../testdata/faults.toml").chars().collect();
        for (from, length, to) in cuts {
            let from = from.index(text.len());
            let taken: Vec<_> =
                text.drain(from..(from + length.index(40)).min(text.len())).collect();
            let to = to.index(text.len() * 2);
            if to < text.len() {
                text.splice(to..to, taken);
            }
        }
        text.into_iter().collect()
    })
}

proptest! {
    #[test]
    fn any_text_gives_a_configuration_or_faults_with_a_place(
        text in prop_oneof![any::<String>(), random_pieces(), mangled()]
    ) {
        if let Err(faults) = parse_bare(&text) {
            prop_assert!(!faults.is_empty());
            for fault in faults {
                let TextPosition { line, column } = fault.place;
                let length = text.split('\n').nth(line - 1).map(|line| line.chars().count());
                prop_assert!(length.is_some_and(|length| column <= length + 1), "{}", fault);
                prop_assert_eq!(fault.to_string().lines().count(), 1);
            }
        }
    }

    #[test]
    fn a_shown_configuration_is_read_back(config in config()) {
        let shown = show(&config);
        match parse_bare(&shown) {
            Ok(read) => {
                prop_assert_eq!(show(&read), shown.clone());
                prop_assert_eq!(without_places(read), config);
            }
            Err(faults) => prop_assert!(false, "{:?} in\n{}", faults, shown),
        }
    }

    #[test]
    fn shown_sizes_and_times_are_read_back(value: u64) {
        prop_assert_eq!(parse_size(&show_size(value)), Ok(value));
        let time = Duration::from_millis(value);
        prop_assert_eq!(parse_duration(&show_duration(time)), Ok(time));
    }

    #[test]
    fn two_dollars_stand_for_one(text: String) {
        prop_assert_eq!(vars::expand(&text.replace('$', "$$"), &no_variables), Ok(text));
    }

    #[test]
    fn variables_are_replaced_by_their_values_or_defaults(
        pieces in vec(("[^$]*", "[a-z]{0,3}", "[^$}]{0,3}"), 0..5)
    ) {
        // A variable is set if its name sorts before "m". Its value is its name twice.
        let env = |name: &str| (name < "m").then(|| name.repeat(2));
        let mut text = String::new();
        let mut expected = String::new();
        for (literal, name, default) in &pieces {
            text += &format!("{literal}${{V{name}:-{default}}}${{{}}}", "a");
            let value = env(&format!("V{name}")).unwrap_or_else(|| default.clone());
            expected += &format!("{literal}{value}aa");
        }
        prop_assert_eq!(vars::expand(&text, &env), Ok(expected));
    }
}
