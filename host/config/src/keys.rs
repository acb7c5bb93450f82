//! All keys of the file with their ranges and defaults. The parser, its messages and the test of
//! docs/configuration.md take them from here and from nowhere else.

use pipemill_channel::{OnPluginError, RecordOrder};
use pipemill_source::s3::{self, Addressing, OnChange};
use pipemill_source::{Balance, Compression};
use pipemill_types::{BatchAcross, BatchSize, Mode, Tail};

use super::key::{Choice, Flag, FreeForm, KeyGroup, Number, Table, Unit, free_form};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const SECOND: u64 = 1_000;
const HOUR: u64 = 3_600 * SECOND;

/// The largest ring in bytes: `slots * slot_size`.
pub(super) const MAX_RING_BYTES: u64 = 256 * GIB;
/// The size of a slot is a multiple of this, in bytes.
pub(super) const SLOT_STEP: u64 = 4 * KIB;
/// A ring needs this many slots more than one consumer's credits: one to fill and one that is
/// ready.
pub(super) const SPARE_SLOTS: u64 = 2;
/// A decoder needs this many bytes of memory more than twice the largest record.
pub(super) const MEMORY_SPARE: u64 = 16 * MIB;
/// Longest path of a Unix socket in bytes: `sun_path` without its final zero.
pub(super) const MAX_SOCKET_PATH: usize = 107;
/// The word for "no limit" in the place of a time.
pub(super) const FOREVER: &str = "forever";

/// The values of `on_error`. The quarantine's file is a key of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Policy {
    Fail,
    Skip,
    Quarantine,
}

pub(super) static SOCKET: FreeForm =
    free_form("socket", "a path of at most 107 bytes", "a path that pipemill chooses");
pub(super) static ALLOW_OTHER_USERS: Flag = Flag { name: "allow_other_users" };
pub(super) static MAX_CONNECTIONS: Number<u64> =
    Number::new("max_connections", Unit::Count, (8, 65_536), 1_024);
pub(super) static METRICS: FreeForm = free_form(
    "metrics",
    "an IP address and a port such as 127.0.0.1:9464, or a path with a `/` of at most 107 bytes",
    "not served",
);
pub(super) static STOP_TIMEOUT: Number<u64> =
    Number::new("stop_timeout", Unit::Time, (0, 24 * HOUR), 110 * SECOND);
pub(super) static FAIL_GRACE: Number<u64> =
    Number::new("fail_grace", Unit::Time, (0, 24 * HOUR), 10 * SECOND);
pub(super) static CHANNEL: FreeForm =
    free_form("channel", "a list of tables, [[channel]]", "required");

pub(super) static S3_TABLE_KEY: FreeForm = free_form("s3", "a table, [s3]", "its defaults");
pub(super) static BUDGET: Number<&str> = Number::new(
    "budget",
    Unit::Size,
    (8 * MIB, 1024 * GIB),
    "`\"256MiB\"`, or a quarter of the container's memory if that is less",
);

pub(super) static RANK: FreeForm = free_form("rank", "a table, [rank]", "from the launcher");
pub(super) static RANK_INDEX: Number<&str> =
    Number::new("index", Unit::Count, (0, 1_000_000), "from the launcher");
pub(super) static RANK_COUNT: Number<&str> =
    Number::new("count", Unit::Count, (1, 1_000_001), "from the launcher");

pub(super) static NAME: FreeForm =
    free_form("name", "a name of 1 to 64 letters, digits, `.`, `_` or `-`", "required");
pub(super) static SOURCE: FreeForm = free_form("source", "a table, source = { … }", "required");
pub(super) static DECODER: FreeForm =
    free_form("decoder", "a decoder's name or a path that ends in .wasm or has a `/`", "found");
pub(super) static SHA256: FreeForm = free_form("sha256", "64 hexadecimal digits", "none");
pub(super) static OPTIONS: FreeForm =
    free_form("options", "a table of strings, whole numbers, true and false", "none");
pub(super) static ON_ERROR: Choice<Policy> = Choice {
    name: "on_error",
    words: &[("fail", Policy::Fail), ("skip", Policy::Skip), ("quarantine", Policy::Quarantine)],
    default: Policy::Fail,
};
pub(super) static ON_PLUGIN_ERROR: Choice<OnPluginError> = Choice {
    name: "on_plugin_error",
    words: &[("fail", OnPluginError::Fail), ("skip-object", OnPluginError::SkipObject)],
    default: OnPluginError::Fail,
};
pub(super) static QUARANTINE: FreeForm =
    free_form("quarantine", "a path", "required with `on_error = \"quarantine\"`");
pub(super) static MAX_ERRORS: Number<u64> =
    Number::new("max_errors", Unit::Count, (1, 1_000_000_000), 1_000);
pub(super) static MAX_RECORD: Number<u64> =
    Number::new("max_record", Unit::Size, (KIB, GIB), 64 * MIB);
pub(super) static MODE: Choice<Mode> = Choice {
    name: "mode",
    words: &[("share", Mode::Share), ("broadcast", Mode::Broadcast), ("shard", Mode::Shard)],
    default: Mode::Share,
};
pub(super) static CONSUMERS: Number<u64> = Number::new("consumers", Unit::Count, (1, 256), 1);
pub(super) static RING: FreeForm = free_form("ring", "a table, [channel.ring]", "its defaults");
pub(super) static LIMITS: FreeForm =
    free_form("limits", "a table, [channel.limits]", "its defaults");

pub(super) static FIFO: FreeForm = free_form("fifo", "a path", "none");
pub(super) static FILE: FreeForm = free_form("file", "a path", "none");
pub(super) static FILES: FreeForm = free_form("files", "a list of paths", "none");
pub(super) static GLOB: FreeForm = free_form("glob", "a pattern", "none");
pub(super) static FOLDER: FreeForm = free_form("folder", "a path", "none");
pub(super) static S3: FreeForm = free_form("s3", "an s3:// address or a list of them", "none");
pub(super) static S3_OBJECT: FreeForm =
    free_form("s3_object", "an s3:// address or a list of them", "none");
pub(super) static MANIFEST: FreeForm = free_form("manifest", "an s3:// address", "none");
pub(super) static AUGMENTED_MANIFEST: FreeForm =
    free_form("augmented_manifest", "an s3:// address", "none");
pub(super) static STDIN: FreeForm = free_form("stdin", "true", "none");
pub(super) static EPOCHS: Number<&str> =
    Number::new("epochs", Unit::Count, (1, 1_000_000), "no end with `fifo`, else `1`");
pub(super) static COMPRESSION: Choice<Compression> = Choice {
    name: "compression",
    words: &[
        ("auto", Compression::Auto),
        ("none", Compression::None),
        ("gzip", Compression::Gzip),
        ("zlib", Compression::Zlib),
        ("zstd", Compression::Zstd),
    ],
    default: Compression::Auto,
};
pub(super) static FIRST_EPOCH: Number<u64> =
    Number::new("first_epoch", Unit::Count, (0, 1_000_000), 0);
pub(super) static OPEN_TIMEOUT: Number<u64> =
    Number::new("open_timeout", Unit::TimeOrForever, (0, 1_000 * HOUR), 600 * SECOND);
pub(super) static IDLE_TIMEOUT: Number<&str> =
    Number::new("idle_timeout", Unit::TimeOrForever, (100, 1_000 * HOUR), "`\"forever\"`");
pub(super) static PIPE_SIZE: Number<u64> =
    Number::new("pipe_size", Unit::Size, (4 * KIB, GIB), MIB);

pub(super) static SHARD: FreeForm =
    free_form("shard", "a table, { index = N, count = N }", "all objects");
pub(super) static BALANCE: Choice<Balance> = Choice {
    name: "balance",
    words: &[("count", Balance::Count), ("size", Balance::Size)],
    default: Balance::Count,
};
pub(super) static DISTRIBUTION: Choice<bool> = Choice {
    name: "distribution",
    words: &[("replicated", false), ("sharded", true)],
    default: false,
};
pub(super) static WRAP: Choice<bool> =
    Choice { name: "wrap", words: &[("none", false), ("recordio", true)], default: false };
pub(super) static LEARN_FROM: FreeForm =
    free_form("learn_from", "a path or an s3:// address", "the first object of all");
pub(super) static HIDDEN: Flag = Flag { name: "hidden" };
pub(super) static ATTRIBUTES: FreeForm =
    free_form("attributes", "a list of 1 to 16 names", "required with `augmented_manifest`");
pub(super) static REGION: FreeForm =
    free_form("region", "a region's name", "as AWS's tools find it");
pub(super) static ENDPOINT: FreeForm =
    free_form("endpoint", "a URL, http:// or https://", "as AWS's tools find it");
pub(super) static PROFILE: FreeForm =
    free_form("profile", "a profile's name", "as AWS's tools find it");
pub(super) static ADDRESSING: Choice<Addressing> = Choice {
    name: "addressing",
    words: &[
        ("auto", Addressing::Auto),
        ("path", Addressing::Path),
        ("virtual", Addressing::Virtual),
    ],
    default: Addressing::Auto,
};
pub(super) static ANONYMOUS: Flag = Flag { name: "anonymous" };
pub(super) static REQUESTER_PAYS: Flag = Flag { name: "requester_pays" };
pub(super) static ALLOW_EMPTY: Flag = Flag { name: "allow_empty" };
pub(super) static PART_SIZE: Number<u64> =
    Number::new("part_size", Unit::Size, (64 * KIB, GIB), s3::DEFAULT_PART_SIZE);
pub(super) static CONCURRENCY: Number<u64> =
    Number::new("concurrency", Unit::Count, (1, 512), s3::DEFAULT_CONCURRENCY as u64);
pub(super) static TARGET_RATE: Number<&str> =
    Number::new("target_rate", Unit::Size, (MIB, 100 * GIB), "none: see `concurrency`");
pub(super) static STALL_TIMEOUT: Number<u64> =
    Number::new("stall_timeout", Unit::Time, (100, HOUR), 10 * SECOND);
pub(super) static RETRY_TIMEOUT: Number<u64> =
    Number::new("retry_timeout", Unit::Time, (0, 24 * HOUR), 60 * SECOND);
pub(super) static CHECKSUM: Choice<bool> =
    Choice { name: "checksum", words: &[("verify", true), ("ignore", false)], default: true };
pub(super) static ON_CHANGE: Choice<OnChange> = Choice {
    name: "on_change",
    words: &[("fail", OnChange::Fail), ("restart-object", OnChange::RestartObject)],
    default: OnChange::Fail,
};

pub(super) static SHARD_INDEX: Number<&str> =
    Number::new("index", Unit::Count, (0, 1_000_000), "required");
pub(super) static SHARD_COUNT: Number<&str> =
    Number::new("count", Unit::Count, (1, 1_000_001), "required");

pub(super) static EPOCH_FILE: FreeForm = free_form("epoch_file", "a path", "none");

pub(super) static BATCH: Number<&str> = Number::new(
    "batch",
    Unit::Count,
    (1, BatchSize::MAX_RECORDS as u64),
    "none: batches leave as early as it helps",
);
pub(super) static TAIL: Choice<Tail> = Choice {
    name: "tail",
    words: &[("keep", Tail::Keep), ("drop", Tail::Drop), ("pad", Tail::Pad)],
    default: Tail::Keep,
};
pub(super) static BATCH_ACROSS: Choice<BatchAcross> = Choice {
    name: "batch_across",
    words: &[("object", BatchAcross::Object), ("epoch", BatchAcross::Epoch)],
    default: BatchAcross::Epoch,
};

/// A number of workers, [`WORKER_COUNT`], or the word [`AUTO`].
pub(super) static WORKERS: FreeForm =
    free_form("workers", "a whole number from 1 to 256, or \"auto\"", "1");
pub(super) static WORKER_COUNT: Number<&str> = Number::new("workers", Unit::Count, (1, 256), "1");
pub(super) static AUTO: &str = "auto";
pub(super) static ORDER: Choice<RecordOrder> = Choice {
    name: "order",
    words: &[("strict", RecordOrder::Strict), ("any", RecordOrder::Any)],
    default: RecordOrder::Strict,
};

pub(super) static SHUFFLE: FreeForm =
    free_form("shuffle", "a table, { seed = N, window = … }", "not shuffled");
pub(super) static SEED: Number<&str> =
    Number::new("seed", Unit::Count, (0, i64::MAX as u64), "required");
/// A window has one of two units: see [`WINDOW_BYTES`] and [`WINDOW_RECORDS`].
pub(super) static WINDOW: FreeForm = free_form(
    "window",
    "a size from 1MiB to 1TiB, or a whole number of records from 2 to 1000000000",
    "none: records keep their order within an object",
);
pub(super) static WINDOW_BYTES: Number<&str> =
    Number::new(WINDOW.name, Unit::Size, (MIB, 1024 * GIB), WINDOW.default);
pub(super) static WINDOW_RECORDS: Number<&str> =
    Number::new(WINDOW.name, Unit::Count, (2, 1_000_000_000), WINDOW.default);

pub(super) static MIX: FreeForm =
    free_form("mix", "a table of channels with their weights, { web = 0.7, code = 0.3 }", "none");
/// Smallest and largest weight, in millionths.
pub(super) const WEIGHTS: (u64, u64) = (1, 1_000_000_000_000);
pub(super) const WEIGHT: &str = "a number from 0.000001 to 1000000";
/// How many channels can be mixed.
pub(super) const MIXED_CHANNELS: (usize, usize) = (2, 16);
pub(super) static UNTIL: FreeForm = free_form(
    "until",
    "\"first\", \"all\", or a whole number of records from 1 to 1000000000000",
    "`\"first\"`",
);
pub(super) static UNTIL_RECORDS: Number<&str> =
    Number::new(UNTIL.name, Unit::Count, (1, 1_000_000_000_000), UNTIL.default);
pub(super) static MIX_SEED: Number<u64> = Number::new("seed", Unit::Count, (0, i64::MAX as u64), 0);

pub(super) static CHECKPOINT: FreeForm =
    free_form("checkpoint", "a table, { path = \"FILE\" }", "none");
pub(super) static CHECKPOINT_PATH: FreeForm = free_form("path", "a path", "required");
pub(super) static EVERY: Number<u64> =
    Number::new("every", Unit::Time, (SECOND, HOUR), 30 * SECOND);

pub(super) static SLOTS: Number<u64> = Number::new("slots", Unit::Count, (4, 4_096), 16);
pub(super) static SLOT_SIZE: Number<u64> =
    Number::new("slot_size", Unit::Size, (64 * KIB, GIB), 4 * MIB);
pub(super) static CREDITS: Number<u64> = Number::new("credits", Unit::Count, (1, 4_094), 4);
pub(super) static LINGER: Number<u64> = Number::new("linger", Unit::Time, (0, 60 * SECOND), 10);

pub(super) static MEMORY: Number<u64> =
    Number::new("memory", Unit::Size, (16 * MIB, 4 * GIB), 512 * MIB);
pub(super) static CALL_TIMEOUT: Number<u64> =
    Number::new("call_timeout", Unit::Time, (10, HOUR), 10 * SECOND);
pub(super) static OUTPUT: Number<&str> = Number::new(
    "output",
    Unit::Size,
    (KIB, 4 * GIB),
    "4 × the larger of `max_record` and `ring.slot_size`",
);

pub(super) static BATCHES: Number<&str> = Number::new(
    "batches",
    Unit::Size,
    (MIB, 16_384 * GIB),
    "the ring's slots, the `window` of `shuffle`, and `\"1GiB\"`; less if the container has less",
);

pub(super) static ROOT_TABLE: Table = Table {
    name: "the top of the file",
    groups: &[&[
        &SOCKET,
        &ALLOW_OTHER_USERS,
        &MAX_CONNECTIONS,
        &METRICS,
        &STOP_TIMEOUT,
        &FAIL_GRACE,
        &S3_TABLE_KEY,
        &RANK,
        &CHANNEL,
    ]],
};
pub(super) static RANK_TABLE: Table =
    Table { name: "[rank]", groups: &[&[&RANK_INDEX, &RANK_COUNT]] };
pub(super) static S3_TABLE: Table = Table { name: "[s3]", groups: &[&[&BUDGET]] };
pub(super) static CHANNEL_TABLE: Table = Table {
    name: "[[channel]]",
    groups: &[&[
        &NAME,
        &SOURCE,
        &DECODER,
        &SHA256,
        &OPTIONS,
        &ON_ERROR,
        &QUARANTINE,
        &ON_PLUGIN_ERROR,
        &MAX_ERRORS,
        &MAX_RECORD,
        &WORKERS,
        &ORDER,
        &MODE,
        &CONSUMERS,
        &BATCH,
        &TAIL,
        &BATCH_ACROSS,
        &SHUFFLE,
        &CHECKPOINT,
        &RING,
        &LIMITS,
    ]],
};
/// The kinds of sources. A source has exactly one of these keys.
pub(super) const KIND_KEYS: KeyGroup = &[
    &FIFO,
    &FILE,
    &FILES,
    &GLOB,
    &FOLDER,
    &S3,
    &S3_OBJECT,
    &MANIFEST,
    &AUGMENTED_MANIFEST,
    &STDIN,
    &MIX,
];
/// Keys of all sources that give bytes.
pub(super) const COMMON_KEYS: KeyGroup = &[&COMPRESSION];
/// Keys of sources that can be read more than once.
pub(super) const EPOCH_KEYS: KeyGroup = &[&EPOCHS];
/// Keys of sources that read whole objects: files and S3.
pub(super) const OBJECT_KEYS: KeyGroup = &[&WRAP, &LEARN_FROM];
/// Keys of sources that can have several objects.
pub(super) const ORDER_KEYS: KeyGroup = &[&SHARD, &DISTRIBUTION];
/// Keys of sources whose listing contains the sizes of the objects.
pub(super) const SIZE_KEYS: KeyGroup = &[&BALANCE];
/// Keys of sources that look for files in folders, or for objects below prefixes.
pub(super) const FOLDER_KEYS: KeyGroup = &[&HIDDEN];
/// Keys of mixes.
pub(super) const MIX_KEYS: KeyGroup = &[&UNTIL, &MIX_SEED];
/// Keys of FIFOs.
pub(super) const FIFO_KEYS: KeyGroup =
    &[&FIRST_EPOCH, &OPEN_TIMEOUT, &IDLE_TIMEOUT, &PIPE_SIZE, &EPOCH_FILE];
/// Keys of sources in S3.
pub(super) const S3_KEYS: KeyGroup = &[
    &REGION,
    &ENDPOINT,
    &PROFILE,
    &ADDRESSING,
    &ANONYMOUS,
    &REQUESTER_PAYS,
    &ALLOW_EMPTY,
    &PART_SIZE,
    &CONCURRENCY,
    &TARGET_RATE,
    &STALL_TIMEOUT,
    &RETRY_TIMEOUT,
    &CHECKSUM,
    &ON_CHANGE,
];
/// Keys of augmented manifests.
pub(super) const AUGMENTED_KEYS: KeyGroup = &[&ATTRIBUTES];

pub(super) static SOURCE_TABLE: Table = Table {
    name: "source",
    groups: &[
        KIND_KEYS,
        EPOCH_KEYS,
        COMMON_KEYS,
        ORDER_KEYS,
        SIZE_KEYS,
        OBJECT_KEYS,
        FIFO_KEYS,
        FOLDER_KEYS,
        AUGMENTED_KEYS,
        S3_KEYS,
        MIX_KEYS,
    ],
};
pub(super) static CHECKPOINT_TABLE: Table =
    Table { name: "checkpoint", groups: &[&[&CHECKPOINT_PATH, &EVERY]] };
pub(super) static SHUFFLE_TABLE: Table = Table { name: "shuffle", groups: &[&[&SEED, &WINDOW]] };
pub(super) static SHARD_TABLE: Table =
    Table { name: "shard", groups: &[&[&SHARD_INDEX, &SHARD_COUNT]] };
pub(super) static RING_TABLE: Table =
    Table { name: "[channel.ring]", groups: &[&[&SLOTS, &SLOT_SIZE, &CREDITS, &LINGER]] };
pub(super) static LIMITS_TABLE: Table =
    Table { name: "[channel.limits]", groups: &[&[&MEMORY, &CALL_TIMEOUT, &OUTPUT, &BATCHES]] };

/// All tables with fixed keys.
pub(super) static TABLES: [&Table; 10] = [
    &ROOT_TABLE,
    &S3_TABLE,
    &RANK_TABLE,
    &CHANNEL_TABLE,
    &SOURCE_TABLE,
    &SHUFFLE_TABLE,
    &CHECKPOINT_TABLE,
    &SHARD_TABLE,
    &RING_TABLE,
    &LIMITS_TABLE,
];
