//! All keys of the file with their ranges, defaults and documentation. The parser, its messages,
//! the schema and the tables of docs/configuration.md all take them from here.
//!
//! - `channel`: keys of `[[channel]]`, and of its tables `shuffle` and `checkpoint`.
//! - `ring`: keys of `[channel.ring]` and `[channel.limits]`.
//! - `root`: keys at the top of the file, in `[s3]` and in `[rank]`.
//! - `s3`: keys of sources in S3, and of their table `cache`.
//! - `source`: the kinds of sources, and the keys that go with some of them.

mod channel;
mod ring;
mod root;
mod s3;
mod source;

pub(crate) use channel::*;
pub(crate) use ring::*;
pub(crate) use root::*;
pub(crate) use s3::*;
pub(crate) use source::*;

use super::key::Table;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const SECOND: u64 = 1_000;
const HOUR: u64 = 3_600 * SECOND;

/// A regular expression of texts that are not empty.
const NOT_EMPTY: &str = ".";
/// A regular expression of addresses in S3.
const S3_ADDRESS: &str = "^s3://";

/// Longest path of a Unix socket in bytes: `sun_path` without its final zero.
pub(crate) const MAX_SOCKET_PATH: usize = 107;

/// The word for "no limit", used instead of a time.
pub(crate) const FOREVER: &str = "forever";

/// All tables with fixed keys.
pub(crate) static TABLES: [&Table; 11] = [
    &ROOT_TABLE,
    &S3_TABLE,
    &RANK_TABLE,
    &CHANNEL_TABLE,
    &SOURCE_TABLE,
    &SHUFFLE_TABLE,
    &CHECKPOINT_TABLE,
    &PART_TABLE,
    &CACHE_TABLE,
    &RING_TABLE,
    &LIMITS_TABLE,
];
