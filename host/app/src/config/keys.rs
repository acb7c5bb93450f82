//! Every key of the file, with its range and default: the one place that has them. The parser, its
//! messages and the check of docs/configuration.md all read them here.

use super::key::{Choice, Flag, Free, Key, Number, Table, Unit, free};
use super::s3::{self, Addressing, OnChange};
use super::{Balance, Compression, Mode};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const SECOND: u64 = 1_000;
const HOUR: u64 = 3_600 * SECOND;

/// The largest ring, in bytes: `slots * slot`.
pub(super) const RING_MAX: u64 = 256 * GIB;
/// A slot is a multiple of so many bytes.
pub(super) const SLOT_STEP: u64 = 4 * KIB;
/// Slots that a ring has at least beyond one consumer's credits: one being filled, one ready.
pub(super) const SPARE_SLOTS: u64 = 2;
/// Linear memory that a decoder has at least beyond twice the largest record.
pub(super) const MEMORY_SPARE: u64 = 16 * MIB;
/// Longest path of a Unix socket, in bytes: `sun_path` less its final zero.
pub(super) const SOCKET_MAX: usize = 107;
/// What stands for "no limit" where a time may be without one.
pub(super) const FOREVER: &str = "forever";

/// What a channel does at a bad place; the quarantine's file is a key of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Policy {
    Fail,
    Skip,
    Quarantine,
}

pub(super) static SOCKET: Free =
    free("socket", "a path of at most 107 bytes", "a path that pipemill chooses");
pub(super) static ALLOW_OTHER_USERS: Flag = Flag { name: "allow_other_users" };
pub(super) static METRICS: Free = free(
    "metrics",
    "an IP address and a port such as 127.0.0.1:9464, or a path with a `/` of at most 107 bytes",
    "not served",
);
pub(super) static STOP_TIMEOUT: Number<u64> =
    Number::new("stop_timeout", Unit::Time, (0, 24 * HOUR), 110 * SECOND);
pub(super) static FAIL_GRACE: Number<u64> =
    Number::new("fail_grace", Unit::Time, (0, 24 * HOUR), 10 * SECOND);
pub(super) static CHANNEL: Free = free("channel", "a list of tables, [[channel]]", "required");

pub(super) static S3_TABLE_KEY: Free = free("s3", "a table, [s3]", "its defaults");
pub(super) static BUDGET: Number<&str> = Number::new(
    "budget",
    Unit::Size,
    (8 * MIB, 1024 * GIB),
    "`\"256MiB\"`, or a quarter of the container's memory if that is less",
);

pub(super) static RANK: Free = free("rank", "a table, [rank]", "from the launcher");
pub(super) static INDEX_OF_RANK: Number<&str> =
    Number::new("index", Unit::Count, (0, 1_000_000), "from the launcher");
pub(super) static COUNT_OF_RANK: Number<&str> =
    Number::new("count", Unit::Count, (1, 1_000_001), "from the launcher");

pub(super) static NAME: Free =
    free("name", "a name of 1 to 64 letters, digits, `.`, `_` or `-`", "required");
pub(super) static SOURCE: Free = free("source", "a table, source = { … }", "required");
pub(super) static DECODER: Free =
    free("decoder", "a decoder's name or a path that ends in .wasm or has a `/`", "required");
pub(super) static SHA256: Free = free("sha256", "64 hexadecimal digits", "none");
pub(super) static OPTIONS: Free =
    free("options", "a table of strings, whole numbers, true and false", "none");
pub(super) static ON_ERROR: Choice<Policy> = Choice {
    name: "on_error",
    words: &[("fail", Policy::Fail), ("skip", Policy::Skip), ("quarantine", Policy::Quarantine)],
    default: Policy::Fail,
};
pub(super) static QUARANTINE: Free =
    free("quarantine", "a path", "required with `on_error = \"quarantine\"`");
pub(super) static MAX_ERRORS: Number<u64> =
    Number::new("max_errors", Unit::Count, (1, 1_000_000_000), 1_000);
pub(super) static MAX_RECORD: Number<u64> =
    Number::new("max_record", Unit::Size, (KIB, GIB), 64 * MIB);
pub(super) static MODE: Choice<Mode> = Choice {
    name: "mode",
    words: &[("share", Mode::Share), ("broadcast", Mode::Broadcast)],
    default: Mode::Share,
};
pub(super) static CONSUMERS: Number<u64> = Number::new("consumers", Unit::Count, (1, 256), 1);
pub(super) static RING: Free = free("ring", "a table, [channel.ring]", "its defaults");
pub(super) static LIMITS: Free = free("limits", "a table, [channel.limits]", "its defaults");

pub(super) static FIFO: Free = free("fifo", "a path", "none");
pub(super) static FILE: Free = free("file", "a path", "none");
pub(super) static GLOB: Free = free("glob", "a pattern", "none");
pub(super) static FOLDER: Free = free("folder", "a path", "none");
pub(super) static S3: Free = free("s3", "an s3:// address or a list of them", "none");
pub(super) static S3_OBJECT: Free = free("s3_object", "an s3:// address or a list of them", "none");
pub(super) static MANIFEST: Free = free("manifest", "an s3:// address", "none");
pub(super) static AUGMENTED_MANIFEST: Free = free("augmented_manifest", "an s3:// address", "none");
pub(super) static STDIN: Free = free("stdin", "true", "none");
pub(super) static EPOCHS: Number<&str> =
    Number::new("epochs", Unit::Count, (1, 1_000_000), "no end with `fifo`, else `1`");
pub(super) static COMPRESSION: Choice<Compression> = Choice {
    name: "compression",
    words: &[
        ("auto", Compression::Auto),
        ("none", Compression::None),
        ("gzip", Compression::Gzip),
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

pub(super) static SHUFFLE: Free = free("shuffle", "a table, { seed = N }", "not shuffled");
pub(super) static SHARD: Free = free("shard", "a table, { index = N, count = N }", "all objects");
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
pub(super) static ATTRIBUTES: Free =
    free("attributes", "a list of 1 to 16 names", "required with `augmented_manifest`");
pub(super) static REGION: Free = free("region", "a region's name", "as AWS's tools find it");
pub(super) static ENDPOINT: Free =
    free("endpoint", "a URL, http:// or https://", "as AWS's tools find it");
pub(super) static PROFILE: Free = free("profile", "a profile's name", "as AWS's tools find it");
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
    Number::new("part_size", Unit::Size, (64 * KIB, GIB), s3::PART);
pub(super) static CONCURRENCY: Number<u64> =
    Number::new("concurrency", Unit::Count, (1, 512), s3::CONCURRENCY as u64);
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

pub(super) static SEED: Number<&str> =
    Number::new("seed", Unit::Count, (0, i64::MAX as u64), "required");
pub(super) static INDEX: Number<&str> =
    Number::new("index", Unit::Count, (0, 1_000_000), "required");
pub(super) static COUNT: Number<&str> =
    Number::new("count", Unit::Count, (1, 1_000_001), "required");

pub(super) static EPOCH_FILE: Free = free("epoch_file", "a path", "none");

pub(super) static SLOTS: Number<u64> = Number::new("slots", Unit::Count, (4, 4_096), 16);
pub(super) static SLOT_SIZE: Number<u64> =
    Number::new("slot_size", Unit::Size, (64 * KIB, GIB), 4 * MIB);
pub(super) static CREDITS: Number<u64> = Number::new("credits", Unit::Count, (1, 4_094), 2);
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

pub(super) static ROOT_TABLE: Table = Table {
    name: "the top of the file",
    groups: &[&[
        &SOCKET,
        &ALLOW_OTHER_USERS,
        &METRICS,
        &STOP_TIMEOUT,
        &FAIL_GRACE,
        &S3_TABLE_KEY,
        &RANK,
        &CHANNEL,
    ]],
};
pub(super) static RANK_TABLE: Table =
    Table { name: "[rank]", groups: &[&[&INDEX_OF_RANK, &COUNT_OF_RANK]] };
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
        &MAX_ERRORS,
        &MAX_RECORD,
        &MODE,
        &CONSUMERS,
        &RING,
        &LIMITS,
    ]],
};
/// What a source is: exactly one of these.
pub(super) const KINDS: &[&dyn Key] =
    &[&FIFO, &FILE, &GLOB, &FOLDER, &S3, &S3_OBJECT, &MANIFEST, &AUGMENTED_MANIFEST, &STDIN];
/// What may stand beside each, in groups.
pub(super) const OF_ALL: &[&dyn Key] = &[&COMPRESSION];
pub(super) const OF_REREAD: &[&dyn Key] = &[&EPOCHS];
pub(super) const OF_WHOLE: &[&dyn Key] = &[&WRAP];
pub(super) const OF_SEVERAL: &[&dyn Key] = &[&SHUFFLE, &SHARD, &DISTRIBUTION];
/// Where a list tells sizes.
pub(super) const OF_SIZED: &[&dyn Key] = &[&BALANCE];
pub(super) const OF_FIFO: &[&dyn Key] =
    &[&FIRST_EPOCH, &OPEN_TIMEOUT, &IDLE_TIMEOUT, &PIPE_SIZE, &EPOCH_FILE];
pub(super) const OF_S3: &[&dyn Key] = &[
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
pub(super) const OF_AUGMENTED: &[&dyn Key] = &[&ATTRIBUTES];

pub(super) static SOURCE_TABLE: Table = Table {
    name: "source",
    groups: &[
        KINDS,
        OF_REREAD,
        OF_ALL,
        OF_SEVERAL,
        OF_SIZED,
        OF_WHOLE,
        OF_FIFO,
        OF_AUGMENTED,
        OF_S3,
    ],
};
pub(super) static SHUFFLE_TABLE: Table = Table { name: "shuffle", groups: &[&[&SEED]] };
pub(super) static SHARD_TABLE: Table = Table { name: "shard", groups: &[&[&INDEX, &COUNT]] };
pub(super) static RING_TABLE: Table =
    Table { name: "[channel.ring]", groups: &[&[&SLOTS, &SLOT_SIZE, &CREDITS, &LINGER]] };
pub(super) static LIMITS_TABLE: Table =
    Table { name: "[channel.limits]", groups: &[&[&MEMORY, &CALL_TIMEOUT, &OUTPUT]] };

/// All tables whose keys are fixed.
pub(super) static TABLES: [&Table; 9] = [
    &ROOT_TABLE,
    &S3_TABLE,
    &RANK_TABLE,
    &CHANNEL_TABLE,
    &SOURCE_TABLE,
    &SHUFFLE_TABLE,
    &SHARD_TABLE,
    &RING_TABLE,
    &LIMITS_TABLE,
];

/// Keys that had another name once: that name, and the one that they have.
pub(super) static RENAMED: [(&str, &str); 8] = [
    ("idle", IDLE_TIMEOUT.name),
    ("part", PART_SIZE.name),
    ("pipe", PIPE_SIZE.name),
    ("retry", RETRY_TIMEOUT.name),
    ("slot", SLOT_SIZE.name),
    ("stall", STALL_TIMEOUT.name),
    ("time", CALL_TIMEOUT.name),
    ("wait", OPEN_TIMEOUT.name),
];
