//! The plan of resources: workers, slots and bytes of each channel, and the bytes of the host. It
//! follows from the configuration and the machine alone, and is computed once. `account` prints it.

use std::path::PathBuf;
use std::thread::available_parallelism;

use pipemill_channel::{BACKGROUND_INFLATE_BYTES, MAX_FRAMING, Workers};
use pipemill_config::{Channel, Config, DecoderRef, Source, WorkerCount};
use pipemill_decode::{Builtin, Builtins};
use pipemill_delivery::state_bytes;
use pipemill_planned::{KEPT_PLAN_BYTES, MAX_PLAN_BYTES, MAX_READ_BYTES};
use pipemill_ring::host::{Remedies, ServerConfig};
use pipemill_source::container::memory_limit;
use pipemill_source::{Pattern, SMALL_OBJECT, s3};
use pipemill_telemetry::{QUEUED_LOG_BYTES, REQUEST_BYTES};
use pipemill_types::{HUGE_PAGE, MemoryLimits, MemoryPart};

const HUGE: u64 = HUGE_PAGE as u64;
/// Smallest number of bytes that the host needs without the rings and the windows of shuffles: for
/// its code, decoders and threads.
const MIN_HOST_BYTES: u64 = 16 << 20;
/// Largest number of bytes that the host takes for its code, its threads and compiled decoders.
const CODE_BYTES: u64 = 56 << 20;
/// Smallest number of bytes that the decoder of a worker needs.
const INSTANCE_BYTES: u64 = 2 << 20;
/// Bytes of the decoded records that an input of a mix holds.
const MIX_INPUT_BYTES: u64 = 6 << 20;
/// Extra slots for each worker: enough for a long section of an object.
const SLOTS_OF_WORKER: u32 = 8;
/// Bytes for batches beyond the ring's slots and the window, if the file has no `limits.batches`.
const DEFAULT_BATCHES: u64 = 1 << 30;
/// The smallest such number, if a container has less memory.
const MIN_BATCHES: u64 = 64 << 20;
/// Bytes that a window takes in addition to its records: its last blocks are not full.
const WINDOW_SPARE: u64 = 32 << 20;

/// The name of the part of the host that all channels in S3 share.
const HOST_S3: (&str, &str) = ("what is fetched from S3 and not read", "[s3] budget");

/// The resources of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// Cores that this process may use, by its affinity and by the container's quota.
    pub cores: usize,
    /// Bytes that the container may use; `None` without a limit.
    pub memory: Option<u64>,
}

impl Machine {
    /// The resources of the machine of this process.
    pub fn here() -> Self {
        let cores = available_parallelism().map_or(1, |count| count.get());
        Self { cores, memory: memory_limit() }
    }

    /// The same machine for a host that counts on no more than this many cores.
    pub(crate) fn within(self, cores: Option<u32>) -> Self {
        let most = cores.map_or(self.cores, |cores| cores as usize);
        Self { cores: self.cores.min(most), ..self }
    }

    /// Cores for the threads that decode. From four cores on, one is left for the channels' own
    /// threads, and one of each eight for the programs that take the records: of 16 cores, workers
    /// on all of them delivered 23 GB/s of TFRecord, and workers on 12 of them 30 GB/s.
    pub fn decoding_cores(&self) -> usize {
        match self.cores {
            cores @ ..4 => cores,
            cores => cores - 1 - cores / 8,
        }
    }
}

/// A number of bytes, their purpose, and the key of the configuration that limits them, if there is
/// one.
pub type MemoryOf = (u64, (&'static str, &'static str));

/// The resources of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourcePlan {
    /// The machine for which the plan was made.
    pub machine: Machine,
    /// The resources of each channel, in the order of the configuration.
    pub channels: Vec<ChannelResources>,
    /// The largest memory of the host in addition to its channels.
    pub host: Vec<MemoryOf>,
}

/// The resources of a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelResources {
    /// The channel's name.
    pub name: String,
    /// The resources of the channel, if it decodes, or of each channel that it mixes.
    pub decoders: Vec<DecoderResources>,
    /// Extra slots of the channel's ring, which its workers fill. Records that are gathered into
    /// batches of a fixed size are copied anyway.
    pub extra_slots: u32,
    /// Largest number of bytes of all slots, if some are as large as its batches.
    pub fitted_ring: u64,
    /// Bytes that it may take, by part.
    pub memory: MemoryLimits,
    /// Bytes that it always takes.
    pub certain: CertainMemory,
}

/// The resources of one decoder's input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecoderResources {
    /// Threads that decode its objects. `workers = "auto"` stands for the channel's part of the
    /// cores that decode; all channels that decode have an equal part.
    pub workers: usize,
    /// Whether it inflates objects in a separate thread: if its workers leave a core for it.
    pub inflates_in_background: bool,
}

/// Bytes that a channel always takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CertainMemory {
    /// For all slots of the ring.
    pub ring: u64,
    /// For the window of `shuffle`, if it is counted in bytes.
    pub window: u64,
    /// For what `limits.batches` allows beyond the ring and the window.
    pub batches: u64,
    /// For workers, with decoders that need little.
    pub workers: u64,
    /// For the decoded records that the inputs of a mix hold.
    pub mixed: u64,
}

impl ResourcePlan {
    /// The plan of a configuration on this machine. `builtins`: the decoders that are known not
    /// to write into their windows.
    pub fn of(config: &Config, builtins: Builtins, machine: Machine) -> Self {
        let decoders = config.channels.iter().flat_map(Channel::decoded).count();
        let machine = machine.within(config.cores);
        let part = |cores: usize| (cores / decoders.max(1)).max(1);
        let (cores, decoding) = (part(machine.cores), part(machine.decoding_cores()));
        let of_channel = |channel| ChannelResources::of(channel, cores, decoding);
        let channels: Vec<_> = config.channels.iter().map(of_channel).collect();
        let mut plan = Self { machine, channels, host: host_bytes(config, machine) };
        let taken = plan.certain_of_all();
        let left = machine.memory.map_or(u64::MAX, |limit| limit.saturating_sub(taken));
        let share = left / plan.channels.len().max(1) as u64;
        let default = share.clamp(MIN_BATCHES, DEFAULT_BATCHES);
        for (resources, channel) in plan.channels.iter_mut().zip(&config.channels) {
            resources.fitted_ring = resources.fitted_ring(channel, default);
            resources.memory = resources.limits(channel, builtins, default);
        }
        plan
    }

    /// Bytes that the host always takes, without its channels' rings and windows.
    pub(super) fn certain_of_host(&self) -> u64 {
        MIN_HOST_BYTES + self.certain(|memory| memory.mixed)
    }

    /// Bytes that are always taken, without the part that `limits.batches` allows.
    pub(super) fn certain_of_all(&self) -> u64 {
        self.certain_of_host() + self.certain(|memory| memory.ring + memory.window + memory.workers)
    }

    /// The sum over all channels.
    pub(super) fn certain(&self, bytes: fn(&CertainMemory) -> u64) -> u64 {
        self.channels.iter().map(|one| bytes(&one.certain)).sum()
    }
}

impl ChannelResources {
    /// The resources of a channel whose decoders have this many cores each, `decoding` of them for
    /// workers. Its limits are not known yet.
    fn of(channel: &Channel, cores: usize, decoding: usize) -> Self {
        let of_decoder = |one: &Channel| {
            let (workers, cores) = match one.workers {
                WorkerCount::Exactly(count) => (count as usize, cores),
                WorkerCount::Auto if one.source.can_reread() => (decoding, decoding),
                WorkerCount::Auto => (1, decoding),
            };
            DecoderResources { workers, inflates_in_background: cores > workers }
        };
        let decoders: Vec<_> = channel.decoded().map(of_decoder).collect();
        let extra_slots = match &channel.source {
            Source::Mix(_) => 0,
            _ if channel.batch.is_some() => 0,
            _ => match decoders.first().map_or(1, |one| one.workers) {
                ..=1 => 0,
                count => count as u32 * SLOTS_OF_WORKER,
            },
        };
        let slots = channel.ring.slots + extra_slots;
        let ring = u64::from(slots) * channel.ring.slot_size as u64;
        let window = channel.shuffle.map_or(0, |shuffle| shuffle.window_bytes());
        let inputs = if is_mix(channel) { decoders.len() as u64 } else { 0 };
        let certain = CertainMemory {
            ring,
            window,
            batches: channel.batch_memory.unwrap_or(0).saturating_sub(ring + window),
            workers: decoders.iter().map(DecoderResources::certain).sum(),
            mixed: inputs * MIX_INPUT_BYTES,
        };
        let (name, memory) = (channel.name.clone(), MemoryLimits::default());
        Self { name, decoders, extra_slots, fitted_ring: 0, memory, certain }
    }

    /// Largest number of bytes of all slots, if some are as large as the channel's batches: half of
    /// the memory for batches, so that there is some for larger ones. A consumer may request the
    /// size of batches, if the file does not set it.
    fn fitted_ring(&self, channel: &Channel, default: u64) -> u64 {
        let CertainMemory { ring, window, .. } = self.certain;
        match channel.ring.fits_batches || channel.batch.is_none() {
            true => ring.max(self.batches(channel, default).saturating_sub(window) / 2),
            false => ring,
        }
    }

    /// The limit for batches. `default` is the number of bytes beyond ring and window, if the file
    /// has none.
    fn batches(&self, channel: &Channel, default: u64) -> u64 {
        let CertainMemory { ring, window, .. } = self.certain;
        // The last blocks of a window are not full.
        let window = if window == 0 { 0 } else { window + window / 7 + WINDOW_SPARE };
        channel.batch_memory.unwrap_or(ring + window + default)
    }

    /// The limit of each part. `default` is the number of bytes for batches beyond ring and window,
    /// if the file has none.
    fn limits(&self, channel: &Channel, builtins: Builtins, default: u64) -> MemoryLimits {
        let decoded = || self.decoders.iter().zip(channel.decoded());
        let sum = |bytes: &dyn Fn(&Channel) -> u64| -> u64 {
            decoded().map(|(resources, one)| resources.workers as u64 * bytes(one)).sum()
        };
        // It is copied when it grows.
        let chunk = |one: &Channel| 2 * (one.max_record + MAX_FRAMING as u64);
        // An input of a mix has its own memory instead of the ring.
        let ring = if channel.ring.fits_batches { self.fitted_ring } else { self.certain.ring };
        let seen = if is_mix(channel) { MIX_INPUT_BYTES } else { ring };
        // Workers of batches of a fixed size are shown their portions.
        let portions = self.decoders.iter().map(|one| Workers::shown_bytes(one.workers)).max();
        let seen = seen.max(portions.unwrap_or(0));
        // All that a window shows.
        let long = |one: &Channel| (one.max_record + MAX_FRAMING as u64).div_ceil(HUGE);
        let seen = |one: &Channel| seen.max(long(one) * HUGE);
        let copies = |one: &Channel| if is_users(one, builtins) { seen(one) } else { 0 };
        let prepared = decoded().filter(|(_, one)| is_users(one, builtins));
        let prepared: u64 = prepared.map(|(_, one)| one.limits.memory).sum();
        let mixed = |one: &Channel| MIX_INPUT_BYTES + 2 * one.max_record;
        let mixed = if is_mix(channel) { channel.decoded().map(mixed).sum() } else { 0 };
        let workers = self.decoders.iter().map(|one| Workers::bytes(one.workers)).sum();
        let inflating = decoded().map(|(resources, one)| resources.inflating(&one.source)).sum();
        let errors = channel.decoded().map(|one| one.on_error.memory(one.max_errors)).sum();
        let plans = decoded().filter(|(_, one)| may_plan(one, builtins));
        let plans = plans.map(|(resources, one)| resources.plans(one)).sum();
        // What a call has made is copied before it is stored in a cache.
        let outputs = |one: &Channel| {
            let is_kept = one.source.reading().is_some_and(|reading| reading.records.is_some());
            one.limits.output * if is_kept { 2 } else { 1 }
        };
        let states = state_bytes(channel.ring.slots + self.extra_slots, self.decoders.len());
        MemoryLimits::default()
            .with(MemoryPart::Batches, self.batches(channel, default))
            .with(MemoryPart::Decoders, sum(&|one| one.limits.memory) + prepared)
            .with(MemoryPart::Outputs, sum(&outputs))
            .with(MemoryPart::Chunks, sum(&chunk))
            .with(MemoryPart::Copies, sum(&copies))
            .with(MemoryPart::Inflating, inflating)
            .with(MemoryPart::Workers, workers)
            .with(MemoryPart::Mixed, mixed)
            .with(MemoryPart::Errors, errors)
            .with(MemoryPart::Plans, plans)
            .with(MemoryPart::States, states)
    }
}

impl DecoderResources {
    /// Bytes that its workers always take.
    fn certain(&self) -> u64 {
        let instances = if self.workers > 1 { self.workers as u64 * INSTANCE_BYTES } else { 0 };
        Workers::bytes(self.workers) + instances
    }

    /// Largest number of bytes for the plans of its objects. Each worker has one open object, and
    /// so has the thread that distributes them, and the one that plans the next object; the
    /// instance that makes their plans, and the plans that are kept, take memory, too.
    fn plans(&self, channel: &Channel) -> u64 {
        let open = if self.workers > 1 { self.workers as u64 + 2 } else { 2 };
        let of_instance = channel.limits.memory + MAX_READ_BYTES;
        of_instance + KEPT_PLAN_BYTES + open * (2 * MAX_PLAN_BYTES + SMALL_OBJECT)
    }

    /// Largest number of bytes for inflating its objects. Each worker has one open object, and so
    /// has the thread that distributes them.
    fn inflating(&self, source: &Source) -> u64 {
        let open = if self.workers > 1 { self.workers as u64 + 1 } else { 1 };
        match inflate_bytes(source) {
            0 => 0,
            bytes if self.inflates_in_background => open * (bytes + BACKGROUND_INFLATE_BYTES),
            bytes => open * bytes,
        }
    }
}

/// Largest number of bytes for inflating one object of a source.
fn inflate_bytes(source: &Source) -> u64 {
    let Some(compression) = source.compression() else { return 0 };
    let of_file = |file: &PathBuf| compression.memory(Some(&file.to_string_lossy()));
    match source {
        Source::Files { pattern: Pattern::File(file), .. } => of_file(file),
        Source::Files { pattern: Pattern::Files(files), .. } => {
            files.iter().map(of_file).max().unwrap_or(0)
        }
        // Their names have no ending.
        Source::Fifo { .. } | Source::Stdin { .. } => compression.memory(Some("-")),
        Source::Files { .. } | Source::S3(_) | Source::Index(_) | Source::Mix(_) => {
            compression.memory(None)
        }
    }
}

fn is_mix(channel: &Channel) -> bool {
    matches!(channel.source, Source::Mix(_))
}

/// The built-in decoder of a channel. `None` for a user's plugin, which may also be found by its
/// name, or when the source is read.
fn builtin_of(channel: &Channel, builtins: Builtins) -> Option<&'static Builtin> {
    let Some(DecoderRef::Name(name)) = &channel.decoder else { return None };
    builtins.iter().find(|builtin| builtin.name == *name)
}

/// Whether a decoder may choose the bytes of objects that it is shown.
fn may_plan(channel: &Channel, builtins: Builtins) -> bool {
    let builtin = builtin_of(channel, builtins);
    channel.source.can_reread() && builtin.is_none_or(|builtin| builtin.plans)
}

/// Whether a decoder may be a user's plugin: it may write into its window, and prepare.
fn is_users(channel: &Channel, builtins: Builtins) -> bool {
    builtin_of(channel, builtins).is_none()
}

/// The advice when the server refuses a consumer.
const REMEDIES: Remedies = Remedies {
    other_user: "its configuration can allow other users",
    no_room: "raise `max_connections` in its configuration, or the number of files that it may \
              open (ulimit -n)",
};

/// The settings of the server of the rings.
pub(super) fn server_config(config: &Config) -> ServerConfig {
    ServerConfig {
        allow_other_users: config.allow_other_users,
        max_connections: config.max_connections as usize,
        remedies: REMEDIES,
    }
}

/// The largest memory of the host in addition to its channels.
fn host_bytes(config: &Config, machine: Machine) -> Vec<MemoryOf> {
    let connections = server_config(config).memory();
    let reads_s3 = |channel: &Channel| matches!(channel.source, Source::S3(_));
    let s3 = config
        .channels
        .iter()
        .flat_map(Channel::decoded)
        .any(reads_s3)
        .then(|| config.s3_budget.unwrap_or_else(|| s3::budget_within(machine.memory)));
    let cached = |channel: &Channel| match &channel.source {
        Source::S3(s3) => s3.cache_memory(),
        _ => 0,
    };
    let caches: u64 = config.channels.iter().flat_map(Channel::decoded).map(cached).sum();
    let metrics = config.metrics.as_ref().map(|_| REQUEST_BYTES);
    let decoded = config.channels.iter().flat_map(Channel::decoded);
    // An index is in memory twice while it is read, and its order takes as much as that later.
    let indexes: u64 =
        decoded.filter_map(|one| Some(2 * one.indexed.as_ref()?.list.0.memory())).sum();
    let parts = [
        (CODE_BYTES, ("code, threads and compiled decoders", "")),
        (QUEUED_LOG_BYTES, ("lines of the log that wait", "")),
        (connections, ("connections that receive nothing", "max_connections")),
        (metrics.unwrap_or(0), ("requests for metrics", "metrics")),
        (indexes, ("indexes", "index")),
        (s3.unwrap_or(0), HOST_S3),
        (caches, ("blocks that are stored in the cache", "cache")),
    ];
    parts.into_iter().filter(|(bytes, _)| *bytes > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipemill_config::parse;

    /// The plan of a configuration, for a machine of 8 cores.
    fn plan(text: &str, memory: Option<u64>) -> ResourcePlan {
        let config = parse(text, "pipemill.toml", &|_| None).expect("it is right");
        let builtin = pipemill_decode::Builtin {
            name: "lines",
            about: "",
            records_version: 0,
            plans: false,
            wasm: &[],
            code: &[],
        };
        // A test leaks a few bytes.
        ResourcePlan::of(&config, Box::leak(Box::new([builtin])), Machine { cores: 8, memory })
    }

    fn channel(source: &str, decoder: &str, more: &str) -> String {
        format!(
            "[[channel]]\nname = 'train'\nsource = {{ {source} }}\ndecoder = '{decoder}'\n{more}"
        )
    }

    fn memory(source: &str, decoder: &str, more: &str, limit: Option<u64>) -> MemoryLimits {
        plan(&channel(source, decoder, more), limit).channels[0].memory
    }

    #[test]
    fn each_part_follows_from_its_limit() {
        let of = memory(
            "folder = 'x', compression = 'none'",
            "lines",
            "batch = 8\nworkers = 2\nmax_record = '1MiB'\nshuffle = { seed = 1, window = '70MiB' \
             }\n\
             on_error = 'skip'\nmax_errors = 1000\n\
             [channel.limits]\nmemory = '100MiB'\noutput = '10MiB'\n",
            None,
        );
        let batches = (64 << 20) + (80 << 20) + WINDOW_SPARE + DEFAULT_BATCHES;
        let expected = MemoryLimits::default()
            .with(MemoryPart::Batches, batches)
            .with(MemoryPart::Decoders, 200 << 20)
            .with(MemoryPart::Outputs, 20 << 20)
            .with(MemoryPart::Chunks, 4 * ((1 << 20) + MAX_FRAMING as u64))
            .with(MemoryPart::Workers, Workers::bytes(2))
            .with(MemoryPart::Errors, 32_000)
            .with(MemoryPart::States, state_bytes(16, 1));
        assert_eq!(of, expected);
    }

    #[test]
    fn batches_fit_into_the_container() {
        let slots = 64 << 20;
        let taken = slots + MIN_HOST_BYTES;
        let of = |limit| memory("folder = 'x'", "lines", "", Some(limit)).of(MemoryPart::Batches);
        assert_eq!(of(taken + (300 << 20)), slots + (300 << 20));
        assert_eq!(of(taken), slots + MIN_BATCHES);
        assert_eq!(of(1 << 40), slots + DEFAULT_BATCHES);
    }

    #[test]
    fn a_cache_counts_for_each_request() {
        let source = |more| channel(&format!("s3 = 's3://b/', concurrency = 5{more}"), "lines", "");
        let of = |more| plan(&source(more), None).host;
        let cache = (10 << 20, ("blocks that are stored in the cache", "cache"));
        assert!(of(", cache = { path = 'x', size = '1GiB' }").contains(&cache));
        assert_eq!(of("").len() + 1, of(", cache = { path = 'x', size = '1GiB' }").len());
    }

    /// A name may be that of a user's plugin, and a decoder that is found later may be one.
    #[test]
    fn only_built_in_decoders_are_known_not_to_copy() {
        let of = |decoder| memory("file = 'x'", decoder, "", None).of(MemoryPart::Copies);
        // The window shows a ring of 64 MiB, or the longest chunk.
        assert_eq!((of("lines"), of("mine"), of("./mine.wasm")), (0, 66 << 20, 66 << 20));
    }

    #[test]
    fn windows_of_zstd_count_where_there_may_be_any() {
        let of = |source, more| memory(source, "lines", more, None).of(MemoryPart::Inflating) >> 20;
        assert_eq!(of("file = 'x.bin'", ""), 0);
        assert_eq!(of("file = 'x.gz'", ""), 1);
        assert_eq!(of("file = 'x.zst'", ""), 129);
        assert_eq!(of("folder = 'x', compression = 'gzip'", ""), 1);
        assert_eq!(of("folder = 'x', compression = 'none'", ""), 0);
        assert_eq!(of("folder = 'x'", "workers = 3"), 4 * 130 - 1);
        assert_eq!(of("fifo = 'x'", ""), 0);
    }

    #[test]
    fn cores_are_divided_among_the_channels_that_decode() {
        let workers = |text: &str| -> Vec<_> {
            let plan = plan(text, None);
            let decoders = plan.channels.into_iter().flat_map(|one| one.decoders);
            decoders.map(|one| (one.workers, one.inflates_in_background)).collect()
        };
        let one = channel("folder = 'x'", "lines", "workers = 'auto'\n");
        assert_eq!(workers(&one), [(6, false)]);
        assert_eq!(workers(&format!("cores = 4\n{one}")), [(3, false)]);
        assert_eq!(workers(&format!("cores = 99\n{one}")), [(6, false)]);
        let pipe = one.replace("folder", "fifo").replace("train", "val");
        assert_eq!(workers(&format!("{one}{pipe}")), [(3, false), (1, true)]);
    }

    #[test]
    fn cores_are_left_for_the_programs_that_take_the_records() {
        let of = |cores| Machine { cores, memory: None }.decoding_cores();
        assert_eq!([1, 2, 3, 4, 7, 8, 12, 16, 64].map(of), [1, 2, 3, 3, 6, 6, 10, 13, 55]);
    }

    #[test]
    fn what_is_fetched_from_s3_is_the_hosts() {
        let of = |source| {
            let plan = plan(&channel(source, "lines", ""), Some(400 << 20));
            plan.host.contains(&(100 << 20, HOST_S3))
        };
        assert!(of("s3 = 's3://bucket/prefix/'") && !of("folder = 'x'"));
    }
}
