//! Keys of `[[channel]]`, and of its tables `shuffle` and `checkpoint`.

use pipemill_channel::{OnPluginError, RecordOrder};
use pipemill_types::{BatchAcross, BatchSize, Mode, Tail};

use super::*;
use crate::key::{Choice, FreeForm, Number, Shape, Table, Unit, free_form};

/// The values of `on_error`. The file of the quarantine has its own key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    Fail,
    Skip,
    Quarantine,
}

/// A regular expression of names of channels.
pub(crate) const NAME_PATTERN: &str = "^[A-Za-z0-9._-]{1,64}$";

pub(crate) static NAME: FreeForm = free_form(
    "name",
    "a name of 1 to 64 letters, digits, `.`, `_` or `-`",
    "required",
    Shape::Text(NAME_PATTERN),
)
.doc(
    "The name that consumers ask for, and that messages and metrics use. It is also the first part \
     of a FIFO's name. Names are unique.",
);

pub(crate) static SOURCE: FreeForm = free_form(
    "source",
    "a table, source = { … }",
    "required, except on SageMaker",
    Shape::Table(&SOURCE_TABLE),
)
.doc("Where the bytes come from.");

pub(crate) static DECODER: FreeForm = free_form(
    "decoder",
    "a decoder's name or a path that ends in .wasm or has a `/`",
    "found",
    Shape::Text(NOT_EMPTY),
)
.doc(
    "The decoder that finds the records. A value that ends in `.wasm` or has a `/` is a plugin's \
     file. Any other value is the name of a built-in decoder, of a plugin in [the lock \
     file](cli.md#the-lock-file) (`NAME@VERSION`, or `NAME` if it has one version of it), or of \
     `<name>.wasm` in one of the folders of `PIPEMILL_PLUGIN_PATH` (separated by `:`). Without \
     it, [the decoder is found](decoders.md#which-decoder-it-is) by the first object of files or \
     of S3; a FIFO and standard input need it.",
);

pub(crate) static SHA256: FreeForm =
    free_form("sha256", "64 hexadecimal digits", "none", Shape::Text("^[0-9a-fA-F]{64}$")).doc(
        "The digest that the decoder's file must have. Any other file is refused before any of it \
         runs. `sha256sum` prints the digest.",
    );

pub(crate) static TRUST: FreeForm = free_form(
    "trust",
    "texts of `sha256:` and 64 hexadecimal digits",
    "none",
    Shape::Texts("^sha256:[0-9a-fA-F]{64}$", None),
)
.doc(
    "Decoders that may [come with the data](cli.md#a-decoder-that-comes-with-the-data), by the \
     SHA-256 of their files. Without `decoder`, the channel uses the one that a file \
     `decoder.toml` beside its data names, if it is one of these or is in [the lock \
     file](cli.md#the-lock-file). Any other one is reported, and not used. Refused with `decoder`, \
     and with an index, which names its decoder.",
);

pub(crate) static OPTIONS: FreeForm = free_form(
    "options",
    "a table of strings, whole numbers, true and false",
    "none",
    Shape::Options,
)
.doc(
    "The decoder's own options. `pipemill plugin inspect` lists them. The value of an option of \
         the kind `file` is a path from the current folder.",
);

/// The texts of fields that can be added.
const ADDED_FIELD: &str =
    "^(__(index|object)__|[^=/]+=(utf8|boolean|u?int(8|16|32|64)|float(32|64)))$";

pub(crate) static ADD_FIELDS: FreeForm = free_form(
    "add_fields",
    "a list of `__index__`, `__object__`, and NAME=TYPE for the value of a folder",
    "those of the index, or none",
    Shape::Texts(ADDED_FIELD, None),
)
.doc(
    "Fields that each record gets after those of the decoder, in this order. `__object__` is the \
     name of the record's object, as messages have it. `__index__` is the record's number in the \
     [index](the-index.md#where-a-record-is-from), as `Dataset` counts it, and needs one as its \
     source. `\"date=utf8\"` is the value of the folder `date=…` in the object's path, which \
     [partitioned data](decoders.md#partitioned-folders) has; types are `utf8`, `boolean`, `int8` \
     to `int64`, `uint8` to `uint64`, `float32` and `float64`. They are part of the schema.",
);

pub(crate) static ON_ERROR: Choice<Policy> = Choice {
    name: "on_error",
    words: &[("fail", Policy::Fail), ("skip", Policy::Skip), ("quarantine", Policy::Quarantine)],
    default: Policy::Fail,
    doc: "What happens at a decode error, which is a place where the input does not fit its \
          format. `fail`: the channel ends with an error. `skip`: the bad bytes are left out, and \
          decoding goes on after them. `quarantine`: as `skip`, and the bad bytes and the reason \
          are kept in a file. What a decoder refuses (an option, a codec that it does not support) \
          always ends the channel, and so does a channel that skipped errors and delivered no \
          record.",
};

pub(crate) static ON_PLUGIN_ERROR: Choice<OnPluginError> = Choice {
    name: "on_plugin_error",
    words: &[("fail", OnPluginError::Fail), ("skip-object", OnPluginError::SkipObject)],
    default: OnPluginError::Fail,
    doc: "What happens if the decoder itself fails: it traps, exceeds a limit or breaks its \
          contract. `fail`: the channel ends with an error, whatever `on_error` says. \
          `skip-object`: the rest of the object is left out.",
};

pub(crate) static QUARANTINE: FreeForm = free_form(
    "quarantine",
    "a path",
    "required with `on_error = \"quarantine\"`",
    Shape::Text(NOT_EMPTY),
)
.doc(
    "The file to which decode errors are appended, one JSON object per line, each place once a \
     run. A regular file. Refused without `on_error = \"quarantine\"`.",
);

pub(crate) static MAX_ERRORS: Number<u64> =
    Number::new("max_errors", Unit::Count, (1, 1_000_000_000), 1_000).doc(
        "If errors are skipped: the channel ends with an error when an epoch has errors in more \
         places than this. Refused if none are skipped.",
    );

pub(crate) static MAX_RECORD: Number<u64> =
    Number::new("max_record", Unit::Size, (KIB, GIB), 64 * MIB).doc(
        "The largest record, in the input and as fields. A larger one is a decode error. This \
         bounds the memory that a wrong length in the input can claim.",
    );

pub(crate) static MODE: Choice<Mode> = Choice {
    name: "mode",
    words: &[("share", Mode::Share), ("broadcast", Mode::Broadcast), ("rank", Mode::Rank)],
    default: Mode::Share,
    doc: "Who gets a batch. `share`: one consumer, the first that is ready; together they see the \
          input once. `broadcast`: every consumer. `rank`: the consumer of one rank, so that each \
          run gives each rank the same batches: see [Ranks](#ranks).",
};

pub(crate) static CONSUMERS: Number<u64> = Number::new("consumers", Unit::Count, (1, 256), 1).doc(
    "With `broadcast`: the number of consumers that must be connected before the first batch is \
     sent, so that none misses the beginning. With `rank`: the number of ranks; required. Refused \
     with `share`.",
);

pub(crate) static RING: FreeForm =
    free_form("ring", "a table, [channel.ring]", "its defaults", Shape::Table(&RING_TABLE))
        .doc("The shared memory.");

pub(crate) static LIMITS: FreeForm =
    free_form("limits", "a table, [channel.limits]", "its defaults", Shape::Table(&LIMITS_TABLE))
        .doc("What the decoder may use.");

pub(crate) static BATCH: Number<&str> = Number::new(
    "batch",
    Unit::Count,
    (1, BatchSize::MAX_RECORDS as u64),
    "none: batches leave as early as it helps",
)
.doc(
    "The number of records of each batch. With it, the same input gives the same batches, whatever \
     the timing, the chunks, the slots and the number of consumers: see [Batches of a fixed \
     size](#batches-of-a-fixed-size).",
);

pub(crate) static TAIL: Choice<Tail> = Choice {
    name: "tail",
    words: &[("keep", Tail::Keep), ("drop", Tail::Drop), ("pad", Tail::Pad)],
    default: Tail::Keep,
    doc: "What happens to the last records if they don't fill a batch. `keep`: they are a smaller \
          batch. `drop`: they are left out, and the log says how many. `pad`: copies of the last \
          record fill the batch, and the batch says how many they are. Refused without `batch`.",
};

pub(crate) static BATCH_ACROSS: Choice<BatchAcross> = Choice {
    name: "batch_across",
    words: &[("object", BatchAcross::Object), ("epoch", BatchAcross::Epoch)],
    default: BatchAcross::Epoch,
    doc: "What a batch may reach across. `object`: nothing, so each object has a tail. `epoch`: \
          the ends of objects, so each epoch has a tail. Refused without `batch`.",
};

/// The number of workers: a number, [`WORKER_COUNT`], or a word, [`AUTO`].
pub(crate) static WORKERS: FreeForm = free_form(
    "workers",
    "a whole number from 1 to 256, or \"auto\"",
    "1",
    Shape::Either(&WORKER_COUNT, &AUTO),
)
.doc(
    "How many objects, or sections of objects, are decoded at the same time: see [Several \
     cores](#several-cores). More than 1 are refused for `fifo`, `stdin` and `mix`. `\"auto\"` is \
     the channel's part of the cores that the host may use, and 1 for these sources. From four \
     cores on, it leaves one, and one more of each eight, for other threads and programs.",
);

pub(crate) static WORKER_COUNT: Number<&str> = Number::new("workers", Unit::Count, (1, 256), "1");

pub(crate) static AUTO: Choice<()> =
    Choice { name: "workers", words: &[("auto", ())], default: (), doc: "" };

pub(crate) static ORDER: Choice<RecordOrder> = Choice {
    name: "order",
    words: &[("strict", RecordOrder::Strict), ("any", RecordOrder::Any)],
    default: RecordOrder::Strict,
    doc: "With `workers`: whether records come in the order of the source, or those of several \
          objects [in the order in which they get ready](#several-cores). `any` is refused without \
          `workers`, with a window, with `checkpoint`, with `batch_across = \"object\"`, and in a \
          channel that is mixed.",
};

pub(crate) static SHUFFLE: FreeForm = free_form(
    "shuffle",
    "a table, { seed = N, window = … }",
    "not shuffled",
    Shape::Table(&SHUFFLE_TABLE),
)
.doc(
    "A random order, another one in each epoch, of the source's objects and, with a `window`, of \
     records: see [Shuffled records](#shuffled-records). The same seed gives the same order on \
     every machine. Without `window`, refused for a source that has one object at a time: `file`, \
     `fifo`, `stdin`.",
);

pub(crate) static SEED: Number<&str> =
    Number::new("seed", Unit::Count, (0, i64::MAX as u64), "required").doc(
        "Two channels with the same input and the same seed have the same order in each epoch.",
    );

pub(crate) static BLOCKS: Number<&str> = Number::new(
    "blocks",
    Unit::Size,
    (64 * KIB, 1024 * GIB),
    "none: objects keep their records",
)
.doc(
    "With an [`index`](the-index.md): the objects are divided into blocks of at least this size, \
         and the blocks of all objects are shuffled, not the objects. `\"8MiB\"` is a good size. A \
         Zstandard object of one frame is one block. Does not go with `batch_across = \"object\"`.",
);

pub(crate) static SHARDS: Number<&str> = Number::new(
    "shards",
    Unit::Count,
    (1, 1_000_000),
    "none: each number of hosts has an order of its own",
)
.doc(
    "With `blocks` and `batch`: divide the records into this many shards of equal length, \
             of which each of `part`'s hosts reads its share, so that [any number of hosts that \
             divides it](the-index.md#with-any-number-of-hosts) gets the same batches together, \
             and can go on with the others' state. Does not go with `window`, `order = \"any\"`, \
             and more than one of `workers`.",
);

/// A window has one of two units: see [`WINDOW_BYTES`] and [`WINDOW_RECORDS`].
pub(crate) static WINDOW: FreeForm = free_form(
    "window",
    "a size from 1MiB to 1TiB, or a whole number of records from 2 to 1000000000",
    "none: records keep their order within an object",
    Shape::Either(&WINDOW_BYTES, &WINDOW_RECORDS),
)
.doc(
    "How far records are mixed: `\"256MiB\"` or `100000`. It needs the channel's `batch`, and does \
     not go with `batch_across = \"object\"`.",
);

pub(crate) static WINDOW_BYTES: Number<&str> =
    Number::new("window", Unit::Size, (MIB, 1024 * GIB), "none");

pub(crate) static WINDOW_RECORDS: Number<&str> =
    Number::new("window", Unit::Count, (2, 1_000_000_000), "none");

pub(crate) static CHECKPOINT: FreeForm = free_form(
    "checkpoint",
    "a table, { path = \"FILE\" }",
    "none",
    Shape::Table(&CHECKPOINT_TABLE),
)
.doc(
    "Where the host writes how far the channel's consumers have come, for [`run \
     --resume`](operate.md#going-on-after-a-stop). Needs `batch`.",
);

pub(crate) static CHECKPOINT_PATH: FreeForm =
    free_form("path", "a path", "required", Shape::Text(NOT_EMPTY)).doc(
        "The file, which is replaced in one step. Only its owner can read it. Its folder has to be \
         there. No other channel and no other host has the same file.",
    );

pub(crate) static EVERY: Number<u64> =
    Number::new("every", Unit::Time, (SECOND, HOUR), 30 * SECOND).doc(
        "How often it is written, if there is something new. It is written at the end of the run, \
         too.",
    );

pub(crate) static CHANNEL_TABLE: Table = Table {
    name: "[[channel]]",
    groups: &[&[
        &NAME,
        &SOURCE,
        &DECODER,
        &SHA256,
        &TRUST,
        &OPTIONS,
        &ADD_FIELDS,
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

pub(crate) static CHECKPOINT_TABLE: Table =
    Table { name: "checkpoint", groups: &[&[&CHECKPOINT_PATH, &EVERY]] };

pub(crate) static SHUFFLE_TABLE: Table =
    Table { name: "shuffle", groups: &[&[&SEED, &BLOCKS, &SHARDS, &WINDOW]] };
