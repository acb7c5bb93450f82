//! The kinds of sources, and the keys that go with some of them; those of S3 are in `s3`.

use pipemill_channel::Until;
use pipemill_source::{Balance, Compression};

use super::*;
use crate::key::{Choice, Flag, FreeForm, KeyGroup, Number, Shape, Table, Unit, free_form};

pub(crate) static FIFO: FreeForm = free_form("fifo", "a path", "none", Shape::Text(NOT_EMPTY)).doc(
    "A folder of FIFOs (named pipes), one per epoch: `<folder>/<channel>_<epoch>`, as SageMaker's \
     Pipe mode makes them.",
);

pub(crate) static FILE: FreeForm =
    free_form("file", "a path", "none", Shape::Text(NOT_EMPTY)).doc("One file.");

pub(crate) static FILES: FreeForm =
    free_form("files", "a list of paths", "none", Shape::Texts(NOT_EMPTY, None))
        .doc("These files, in this order.");

pub(crate) static GLOB: FreeForm = free_form("glob", "a pattern", "none", Shape::Text(NOT_EMPTY))
    .doc(
        "All files that match the pattern, in the order of their names. `*` and `?` stand for \
         characters of one name, `**` for any number of folders, `[a-z]` for one character of \
         these. A byte of a name that is not UTF-8 counts as U+FFFD, which `?` and `*` match. \
         Links to folders are followed as with `folder`.",
    );

pub(crate) static FOLDER: FreeForm = free_form("folder", "a path", "none", Shape::Text(NOT_EMPTY))
    .doc(
        "All files in a folder and its subfolders, at any depth, in the order of their paths, but \
         no [hidden](#in-source) ones and no markers such as `_SUCCESS`. Links to folders are \
         followed, unless they lead back to a folder that they lie in.",
    );

pub(crate) static S3: FreeForm =
    free_form("s3", "an s3:// address or a list of them", "none", Shape::Texts(S3_ADDRESS, None))
        .doc(
            "All objects whose keys begin with the address, in the order of their keys: \
             `\"s3://bucket/prefix\"`; but no [hidden](#in-source) ones and no markers.",
        );

pub(crate) static S3_OBJECT: FreeForm = free_form(
    "s3_object",
    "an s3:// address or a list of them",
    "none",
    Shape::Texts(S3_ADDRESS, None),
)
.doc(
    "These objects: `\"s3://bucket/key\"`, or `\"s3://bucket/key?versionId=ID\"` for one version.",
);

pub(crate) static MANIFEST: FreeForm =
    free_form("manifest", "an s3:// address", "none", Shape::Texts(S3_ADDRESS, Some(1))).doc(
        "The objects that a manifest lists: a JSON array, first `{\"prefix\": \
         \"s3://bucket/path/\"}`, then the rest of each key after the prefix.",
    );

pub(crate) static AUGMENTED_MANIFEST: FreeForm =
    free_form("augmented_manifest", "an s3:// address", "none", Shape::Texts(S3_ADDRESS, Some(1)))
        .doc(
            "One object per line of an augmented manifest (JSON Lines). The object consists of the \
             values of the line's `attributes`.",
        );

pub(crate) static INDEX: FreeForm =
    free_form("index", "a path or an s3:// address", "none", Shape::Text(NOT_EMPTY)).doc(
        "The objects of an [index](the-index.md), which `pipemill index` has made: a file, or \
     `\"s3://bucket/key\"`, which is reached as the objects in S3 are. Nothing is listed, and \
     nothing is learned: the index says which objects there are, in which state, the decoder with \
     its options, the fields and the number of records. An object that has changed is refused \
     before its first record.",
    );

pub(crate) static INDEXED: Flag = Flag {
    name: "indexed",
    doc: "With `folder` or one `s3` address: reads what the [index](the-index.md) knows that lies \
          beside the data, `_pipemill.index` in the folder or below the prefix. It is an error if \
          there is none. The index says `compression`, `hidden`, `list`, `wrap` and `learn_from`, \
          so these can't be set.",
};

pub(crate) static ROOT: FreeForm =
    free_form("root", "a path", "as the index says", Shape::Text(NOT_EMPTY)).doc(
        "With `index`: the folder that the files lie in, if they were moved or copied. Without it, \
         that is the folder in which they were indexed.",
    );

pub(crate) static SKIP: FreeForm = free_form(
    "skip",
    "a list of record numbers and ranges, such as [5, \"10-20\"], or the path or s3:// address of \
     a file of them",
    "none",
    Shape::Either(&SKIP_RECORDS, &SKIP_FILE),
)
.doc(
    "With an index: records that are left out, by their numbers in the index: see [Skip \
     lists](the-index.md#skip-lists). Ranges include both ends. A file has a number or a range in \
     each line; what follows a `#` is a comment.",
);

/// A skip list in the configuration.
static SKIP_RECORDS: FreeForm =
    free_form("skip", "a list", "none", Shape::NumbersAndTexts("^[0-9]+(-[0-9]+)?$"));

/// A skip list in a file.
static SKIP_FILE: FreeForm =
    free_form("skip", "a path or an s3:// address", "none", Shape::Text(NOT_EMPTY));

pub(crate) static STDIN: FreeForm =
    free_form("stdin", "true", "none", Shape::True).doc("Standard input. For one channel only.");

pub(crate) static EPOCHS: Number<&str> =
    Number::new("epochs", Unit::Count, (1, 1_000_000), "no end with `fifo`, else `1`")
        .doc("How often the input is read. With `fifo`: the number of FIFOs.");

pub(crate) static COMPRESSION: Choice<Compression> = Choice {
    name: "compression",
    words: &[
        ("auto", Compression::Auto),
        ("none", Compression::None),
        ("gzip", Compression::Gzip),
        ("zlib", Compression::Zlib),
        ("zstd", Compression::Zstd),
    ],
    default: Compression::Auto,
    doc: "`auto` goes by the name: `.gz`, `.gzip` and `.tgz` are gzip, `.zz` is zlib (`ZLIB` of \
          TensorFlow's writers), `.zst`, `.zstd` and `.tzst` are zstd, in upper or lower case. If \
          the name of an object in S3 says neither, its `Content-Encoding` decides. Anything else \
          is read as it is: [built-in decoders](decoders.md#objects-of-another-format) refuse a \
          gzip file called `x.csv`, so say `compression = \"gzip\"`. A gzip header with a file \
          name of more than 64 KiB is refused. FIFOs and standard input have no such name: for \
          them `auto` means `none`.",
};

pub(crate) static FIRST_EPOCH: Number<u64> =
    Number::new("first_epoch", Unit::Count, (0, 1_000_000), 0).doc("The number of the first FIFO.");

pub(crate) static OPEN_TIMEOUT: Number<u64> =
    Number::new("open_timeout", Unit::TimeOrForever, (0, 1_000 * HOUR), 600 * SECOND)
        .doc("How long a FIFO may take to appear. After that, the channel ends with an error.");

pub(crate) static IDLE_TIMEOUT: Number<&str> =
    Number::new("idle_timeout", Unit::TimeOrForever, (100, 1_000 * HOUR), "`\"forever\"`")
        .doc("How long an open FIFO may give no byte. After that, the channel ends with an error.");

pub(crate) static PIPE_SIZE: Number<u64> =
    Number::new("pipe_size", Unit::Size, (4 * KIB, GIB), MIB).doc(
        "The FIFO's capacity to request from the kernel. If the kernel refuses it \
         (`/proc/sys/fs/pipe-max-size`), the FIFO keeps its capacity, and that is no error.",
    );

/// The part of the objects: a table, [`PART_NUMBERS`], or a word, [`PART_OF_RANK`].
pub(crate) static PART: FreeForm = free_form(
    "part",
    "a table, { index = N, count = N }, or \"rank\"",
    "all objects",
    Shape::Either(&PART_NUMBERS, &PART_OF_RANK),
)
.doc(
    "Which of the objects are read, after they were shuffled. A table: every `count`-th object, \
     starting with number `index`. Together, `count` hosts read each object once. A part may be \
     empty. `\"rank\"`: the part of this machine, as [`[rank]`](#in-rank) says. So all machines \
     can use the same configuration.",
);
pub(crate) static PART_NUMBERS: FreeForm = free_form(
    "part",
    "a table, { index = N, count = N }",
    "all objects",
    Shape::Table(&PART_TABLE),
);
pub(crate) static PART_OF_RANK: Choice<()> =
    Choice { name: "part", words: &[("rank", ())], default: (), doc: "" };

pub(crate) static BALANCE: Choice<Balance> = Choice {
    name: "balance",
    words: &[("count", Balance::Count), ("size", Balance::Size)],
    default: Balance::Count,
    doc: "With `part`: whether parts have equal numbers of objects, or equal numbers of stored \
          bytes. With `size`, no part has more bytes than the mean plus the largest object.",
};

pub(crate) static WRAP: Choice<bool> = Choice {
    name: "wrap",
    words: &[("none", false), ("recordio", true)],
    default: false,
    doc: "`recordio` makes one RecordIO record of each object (of each attribute of an augmented \
          manifest), of at most 512 MiB.",
};

pub(crate) static LEARN_FROM: FreeForm = free_form(
    "learn_from",
    "a path or an s3:// address",
    "the first object of all",
    Shape::Text(NOT_EMPTY),
)
.doc(
    "The object from which the decoder, if none is named, the header, types and shapes are \
     learned. All objects must agree with it. Without it, that is the first object of the whole \
     source in the order of its list, before objects are shuffled or divided: so all machines and \
     ranks have the same fields.",
);

pub(crate) static HIDDEN: Flag = Flag {
    name: "hidden",
    doc: "Whether `folder`, `s3`, and the wildcards of `glob` select hidden files and markers, and \
          what is in folders of such names: names that begin with a dot (`.DS_Store`, `._a.jpg`, \
          `.ipynb_checkpoints/`) or with `_` (`_SUCCESS`, `_committed_1`, `_delta_log/`; not \
          `_year=2024/`, a column's folder of Hive), and names that end with `.crc` or \
          `._COPYING_`. Else they are left out, as Spark, Hive and Arrow do, and the log says how \
          many. What is named itself is always read: `file`, `files`, `s3_object`, the patterns \
          `_*` and `*.crc`, the prefix `s3://bucket/t/_delta_log/`.",
};

pub(crate) static LIST: Choice<bool> = Choice {
    name: "list",
    words: &[("once", false), ("epoch", true)],
    default: false,
    doc: "When `folder`, `glob` and `s3` list their objects. `once`: before the first epoch. So \
          all epochs have the same objects, and one that was changed, replaced or removed since \
          then is an error when it is read. New objects are seen by the next run. `epoch`: before \
          each epoch, so it has the objects that there are then. Files that are named one by one \
          may change between two epochs, and a manifest is read again for each.",
};

pub(crate) static INVENTORY: FreeForm =
    free_form("inventory", "an s3:// address", "none", Shape::Texts(S3_ADDRESS, Some(1))).doc(
        "With `s3`: the manifest of an [S3 Inventory](s3.md#an-inventory-in-place-of-lists), \
         `\"s3://bucket/path/manifest.json\"`. The objects below the prefixes are those of the \
         inventory, and the bucket is not asked for lists.",
    );

pub(crate) static PART_INDEX: Number<&str> =
    Number::new("index", Unit::Count, (0, 1_000_000), "required")
        .doc("The number of this part, from 0.");

pub(crate) static PART_COUNT: Number<&str> =
    Number::new("count", Unit::Count, (1, 1_000_001), "required").doc("How many parts there are.");

pub(crate) static EPOCH_FILE: FreeForm =
    free_form("epoch_file", "a path", "none", Shape::Text(NOT_EMPTY)).doc(
        "A file that stores the number of the next FIFO for a later process, because bytes that \
         were read from a FIFO can't be read again. Remove it to begin with `first_epoch` again.",
    );

pub(crate) static MIX: FreeForm = free_form(
    "mix",
    "a table of channels with their weights, { web = 0.7, code = 0.3 }",
    "none",
    Shape::Weights,
)
.doc(
    "Records of 2 to 16 other channels of this file, which are not served by themselves: see \
     [Mixed channels](#mixed-channels). A weight is a number from 0.000001 to 1000000.",
);

/// Smallest and largest weight, in millionths.
pub(crate) const WEIGHTS: (u64, u64) = (1, 1_000_000_000_000);

pub(crate) const WEIGHT: &str = "a number from 0.000001 to 1000000";

/// How many channels can be mixed.
pub(crate) const MIXED_CHANNELS: (usize, usize) = (2, 16);

pub(crate) static UNTIL: FreeForm = free_form(
    "until",
    "\"first\", \"all\", or a whole number of records from 1 to 1000000000000",
    "`\"first\"`",
    Shape::Either(&UNTIL_WORDS, &UNTIL_RECORDS),
)
.doc("Where an epoch of a mix ends.");

/// `until` is one of these words or [`UNTIL_RECORDS`].
pub(crate) static UNTIL_WORDS: Choice<Until> = Choice {
    name: "until",
    words: &[("first", Until::First), ("all", Until::All)],
    default: Until::First,
    doc: "",
};
pub(crate) static UNTIL_RECORDS: Number<&str> =
    Number::new("until", Unit::Count, (1, 1_000_000_000_000), "`\"first\"`");

pub(crate) static MIX_SEED: Number<u64> = Number::new("seed", Unit::Count, (0, i64::MAX as u64), 0)
    .doc("What a mix draws by. The same seed draws the same.");

/// The kinds of sources. A source has exactly one of these keys.
pub(crate) const KIND_KEYS: KeyGroup = &[
    &FIFO,
    &FILE,
    &FILES,
    &GLOB,
    &FOLDER,
    &S3,
    &S3_OBJECT,
    &MANIFEST,
    &AUGMENTED_MANIFEST,
    &INDEX,
    &STDIN,
    &MIX,
];

/// Keys of all sources that give bytes.
pub(crate) const COMMON_KEYS: KeyGroup = &[&COMPRESSION];

/// Keys of sources that can be read more than once.
pub(crate) const EPOCH_KEYS: KeyGroup = &[&EPOCHS];

/// Keys of sources that read whole objects: files and S3.
pub(crate) const OBJECT_KEYS: KeyGroup = &[&WRAP, &LEARN_FROM];

/// Keys of sources that can have several objects.
pub(crate) const ORDER_KEYS: KeyGroup = &[&PART];

/// Keys of sources whose listing contains the sizes of the objects.
pub(crate) const SIZE_KEYS: KeyGroup = &[&BALANCE];

/// Keys of sources that look for files in folders, or for objects below prefixes.
pub(crate) const FOLDER_KEYS: KeyGroup = &[&HIDDEN, &LIST];

/// Keys of sources that look for objects below prefixes.
pub(crate) const PREFIX_KEYS: KeyGroup = &[&INVENTORY];

/// Keys of sources beside which an index may lie.
pub(crate) const INDEXED_KEYS: KeyGroup = &[&INDEXED];

/// Keys of indexes.
pub(crate) const INDEX_KEYS: KeyGroup = &[&ROOT];

/// Keys of sources that are read as an index knows them.
pub(crate) const SKIP_KEYS: KeyGroup = &[&SKIP];

/// Keys of mixes.
pub(crate) const MIX_KEYS: KeyGroup = &[&UNTIL, &MIX_SEED];

/// Keys of FIFOs.
pub(crate) const FIFO_KEYS: KeyGroup =
    &[&FIRST_EPOCH, &OPEN_TIMEOUT, &IDLE_TIMEOUT, &PIPE_SIZE, &EPOCH_FILE];

pub(crate) static SOURCE_TABLE: Table = Table {
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
        PREFIX_KEYS,
        AUGMENTED_KEYS,
        S3_KEYS,
        CACHE_KEYS,
        INDEXED_KEYS,
        INDEX_KEYS,
        SKIP_KEYS,
        MIX_KEYS,
    ],
};

pub(crate) static PART_TABLE: Table =
    Table { name: "part", groups: &[&[&PART_INDEX, &PART_COUNT]] };
