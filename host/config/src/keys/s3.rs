//! Keys of sources in S3.

use pipemill_source::s3::{self, Addressing, OnChange};

use super::*;
use crate::key::{Choice, Flag, FreeForm, KeyGroup, Number, Shape, Table, Unit, free_form};

pub(crate) static ATTRIBUTES: FreeForm = free_form(
    "attributes",
    "a list of 1 to 16 names",
    "required with `augmented_manifest`",
    Shape::Texts(NOT_EMPTY, Some(16)),
)
.doc(
    "The attributes whose values are read, in this order. If a name ends in `-ref`, the value \
     names an object, and the object's bytes are read. Of any other attribute, the text of the \
     value is read.",
);

pub(crate) static REGION: FreeForm =
    free_form("region", "a region's name", "as AWS's tools find it", Shape::Text(NOT_EMPTY))
        .doc("The bucket's region.");

pub(crate) static ENDPOINT: FreeForm = free_form(
    "endpoint",
    "a URL, http:// or https://",
    "as AWS's tools find it",
    Shape::Text("^https?://"),
)
.doc("The server, if it is not Amazon's.");

pub(crate) static PROFILE: FreeForm =
    free_form("profile", "a profile's name", "as AWS's tools find it", Shape::Text(NOT_EMPTY))
        .doc("A profile of `~/.aws/config`.");

pub(crate) static ADDRESSING: Choice<Addressing> = Choice {
    name: "addressing",
    words: &[
        ("auto", Addressing::Auto),
        ("path", Addressing::Path),
        ("virtual", Addressing::Virtual),
    ],
    default: Addressing::Auto,
    doc: "Whether the bucket's name is in the path or in the host's name. `auto` is `virtual` for \
          Amazon's servers and `path` for all others.",
};

pub(crate) static ANONYMOUS: Flag =
    Flag { name: "anonymous", doc: "Sends requests without credentials, for public buckets." };

pub(crate) static REQUESTER_PAYS: Flag = Flag {
    name: "requester_pays",
    doc: "Agrees to pay for the requests, for buckets that require it.",
};

pub(crate) static ALLOW_EMPTY: Flag =
    Flag { name: "allow_empty", doc: "Whether a source without any object is allowed." };

pub(crate) static PART_SIZE: Number<u64> =
    Number::new("part_size", Unit::Size, (64 * KIB, GIB), s3::DEFAULT_PART_SIZE)
        .doc("The number of bytes that one request fetches.");

pub(crate) static CONCURRENCY: Number<u64> =
    Number::new("concurrency", Unit::Count, (1, 512), s3::DEFAULT_CONCURRENCY as u64).doc(
        "The number of requests at once. If a server asks for fewer, it gets fewer for a while.",
    );

pub(crate) static TARGET_RATE: Number<&str> =
    Number::new("target_rate", Unit::Size, (MIB, 100 * GIB), "none: see `concurrency`").doc(
        "Instead of `concurrency`: as many requests at once as this rate in bytes per second \
         needs, at 86 MiB/s per request, and at least 8.",
    );

pub(crate) static STALL_TIMEOUT: Number<u64> =
    Number::new("stall_timeout", Unit::Time, (100, HOUR), 10 * SECOND).doc(
        "A request that gives no byte for this time is given up. A new request goes on from the \
         byte that was reached.",
    );

pub(crate) static RETRY_TIMEOUT: Number<u64> =
    Number::new("retry_timeout", Unit::Time, (0, 24 * HOUR), 60 * SECOND).doc(
        "If no byte comes for this time in spite of retries, or fewer than 1,024 a second, the \
         channel ends with an error.",
    );

pub(crate) static CHECKSUM: Choice<bool> = Choice {
    name: "checksum",
    words: &[("verify", true), ("ignore", false)],
    default: true,
    doc: "Whether an object's bytes are compared with the server's checksum of the whole object, \
          if the server has one.",
};

pub(crate) static ON_CHANGE: Choice<OnChange> = Choice {
    name: "on_change",
    words: &[("fail", OnChange::Fail), ("restart-object", OnChange::RestartObject)],
    default: OnChange::Fail,
    doc: "What happens if an object is replaced while it is read. `restart-object` reads the new \
          object, as long as no byte of the old one has been decoded.",
};

pub(crate) static CACHE: FreeForm = free_form(
    "cache",
    "a table, { path = …, size = … }",
    "none",
    Shape::Table(&CACHE_TABLE),
)
.doc(
    "Keeps the stored bytes of objects in S3, or the records of any objects, on a local disk: see \
     [the cache](s3.md#the-cache). What is in it is not fetched or decoded again, by any channel, \
     rank or process of this user on this machine.",
);

pub(crate) static CACHE_PATH: FreeForm =
    free_form("path", "a path", "required", Shape::Text(NOT_EMPTY)).doc(
        "The folder of the cache, on a fast local disk. It is made if it is missing. Only this \
         user may be able to write to it.",
    );

pub(crate) static CACHE_SIZE: Number<&str> =
    Number::new("size", Unit::Size, (16 * MIB, 1024 * 1024 * GIB), "required").doc(
        "How many bytes the cache may have on the disk. Blocks that are being written come on \
         top: at most 1 MiB for each request, or the records of one object, or of one block, for \
         each worker.",
    );

/// What a cache keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CacheOf {
    /// The bytes of objects in S3.
    Bytes,
    /// What decoders make of objects.
    Records,
}

pub(crate) static CACHE_OF: Choice<CacheOf> = Choice {
    name: "of",
    words: &[("bytes", CacheOf::Bytes), ("records", CacheOf::Records)],
    default: CacheOf::Bytes,
    doc: "What is kept: `bytes` are those of objects in S3, as they are stored; `records` are \
          [what the decoder has made](s3.md#records-in-the-cache) of objects in S3 or of files.",
};

pub(crate) static CACHE_TABLE: Table =
    Table { name: "cache", groups: &[&[&CACHE_PATH, &CACHE_SIZE, &CACHE_OF]] };

/// Keys of sources in S3.
pub(crate) const S3_KEYS: KeyGroup = &[
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

/// Keys of sources of which something can be kept.
pub(crate) const CACHE_KEYS: KeyGroup = &[&CACHE];

/// Keys of augmented manifests.
pub(crate) const AUGMENTED_KEYS: KeyGroup = &[&ATTRIBUTES];
