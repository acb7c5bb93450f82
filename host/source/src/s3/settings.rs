//! Settings of a channel's S3 source.

use std::fmt;
use std::time::Duration;

use super::access::Access;
use super::address::Address;
use crate::cache::{CACHE_BYTES_OF_REQUEST, CacheSettings, memory_of_needs};
use crate::{KnownList, ReadSettings};

/// Default of [`Settings::part_size`] in bytes: small enough for a fast start, large enough to use
/// the full bandwidth of a connection.
pub const DEFAULT_PART_SIZE: u64 = 8 << 20;
/// Default of [`Settings::concurrency`]. At [`CONNECTION_RATE`] this is 1.8 GB/s, which is more
/// than most decoders need.
pub const DEFAULT_CONCURRENCY: usize = 20;
/// Bytes per second that S3 delivers over one connection.
pub const CONNECTION_RATE: u64 = 90_000_000;

/// Selects the objects that a channel reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// For each address all objects whose keys begin with its key, sorted by key.
    Prefixes(Vec<Address>),
    /// These objects.
    Objects(Vec<Address>),
    /// For each address the object with this key. If there is none, all objects whose keys begin
    /// with it, sorted by key.
    Named(Vec<Address>),
    /// The objects that a manifest lists. It is a JSON array whose first element is a prefix.
    Manifest(Address),
    /// One object for each line of an augmented manifest, made of the line's attributes.
    Augmented {
        /// The manifest, in JSON Lines.
        manifest: Address,
        /// Names of the attributes, in the order in which their bytes are read.
        attributes: Vec<String>,
    },
    /// The objects of an index, in the state that it knows.
    Known {
        /// The objects.
        list: KnownList,
        /// The path of the index.
        index: String,
    },
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Manifest(address) => address.fmt(f),
            Self::Augmented { manifest, .. } => manifest.fmt(f),
            Self::Known { index, .. } => f.write_str(index),
            Self::Prefixes(all) | Self::Objects(all) | Self::Named(all) => match all.as_slice() {
                [first, _, ..] => write!(f, "{first} and {} more", all.len() - 1),
                [only] => only.fmt(f),
                [] => Ok(()),
            },
        }
    }
}

/// Settings of a channel's S3 source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Name of the channel, for the log.
    pub channel: Option<String>,
    /// The objects to read.
    pub selection: Selection,
    /// Region, endpoint and credentials.
    pub access: Access,
    /// Order, part, epochs, compression.
    pub reading: ReadSettings,
    /// Largest number of bytes that one request reads.
    pub part_size: u64,
    /// Largest number of requests at the same time.
    pub concurrency: usize,
    /// A request that delivers no byte for this time is aborted and sent again.
    pub stall_timeout: Duration,
    /// The channel ends with an error if all tries of a request make no progress for this time.
    pub retry_timeout: Duration,
    /// Whether objects are compared with the checksums that the server stores of whole objects.
    pub verify: bool,
    /// The reaction to an object that changes while it is read.
    pub on_change: OnChange,
    /// Whether an empty selection is allowed.
    pub allow_empty: bool,
    /// The cache on a local disk, if there is one.
    pub cache: Option<CacheSettings>,
}

impl Settings {
    /// Default settings for these objects.
    pub fn new(selection: Selection) -> Self {
        Self {
            channel: None,
            selection,
            access: Access::default(),
            reading: ReadSettings::default(),
            part_size: DEFAULT_PART_SIZE,
            concurrency: DEFAULT_CONCURRENCY,
            stall_timeout: Duration::from_secs(10),
            retry_timeout: Duration::from_secs(60),
            verify: true,
            on_change: OnChange::Fail,
            allow_empty: false,
            cache: None,
        }
    }

    /// Largest number of bytes of memory that the cache takes, if there is one: what requests hold,
    /// and, for a shuffled index, which may be read in parts or shards, the order of a later epoch
    /// and what is known of such epochs.
    pub fn cache_memory(&self) -> u64 {
        if self.cache.is_none() {
            return 0;
        }
        let needs = match &self.selection {
            Selection::Known { list, .. } if self.reading.order.shuffle.is_some() => {
                let sizes = (0..list.0.count()).map(|number| list.0.size(number));
                memory_of_needs(sizes) + list.0.memory()
            }
            _ => 0,
        };
        self.concurrency as u64 * CACHE_BYTES_OF_REQUEST + needs
    }
}

/// The reaction to an object that changes while it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnChange {
    /// The channel ends with an error.
    #[default]
    Fail,
    /// The new object is read instead, if none of the old one's bytes has been decoded. Otherwise
    /// the same as `Fail`.
    RestartObject,
}
