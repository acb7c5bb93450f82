//! The configuration as plain data for the rest of the host, with units, ranges and defaults.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pipemill_channel::{OnError, OnPluginError, RecordOrder, Shards, Until, Window};
use pipemill_decode::{Digest, Limits};
use pipemill_ring::protocol::Resumed;
use pipemill_source::s3::Address;
use pipemill_source::{Compression, INDEX_NAME, Location, Pattern, ReadSettings, s3};
use pipemill_types::{AddedField, BatchSize, Mode};

use super::fault::TextPosition;
use super::indexed::Indexed;
use super::keys;
use super::skip_list::SkipList;

/// The whole configuration of one host process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The name of the configuration file, for messages.
    pub file: String,
    /// The Unix socket for consumers, at most 107 bytes. If absent, the host chooses a path.
    pub socket: Option<PathBuf>,
    /// Whether processes of other users may connect. Default: no.
    pub allow_other_users: bool,
    /// Connections of consumers and status clients at once, 8 to 65,536. Default: 1,024.
    pub max_connections: u32,
    /// Cores that the host counts on, 1 to 65,536. If absent, all that it may use.
    pub cores: Option<u32>,
    /// The address at which metrics are served. If absent, they are not served.
    pub metrics: Option<Listen>,
    /// Time between the request to end and SIGKILL for the command. Default: 110 seconds.
    pub stop_timeout: Duration,
    /// Time between the failure of a channel and the request to end. Default: 10 seconds.
    pub fail_grace: Duration,
    /// Limit in bytes for data that was fetched from S3 and not read yet, for all channels
    /// together: 8 MiB to 1 TiB. If absent, the host chooses it.
    pub s3_budget: Option<u64>,
    /// The channels. Their names are unique.
    pub channels: Vec<Channel>,
}

/// An address at which the host serves HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A Unix socket. Its path contains a `/` and has at most 107 bytes.
    Unix(PathBuf),
}

/// A channel: a source, a decoder and the ring from which consumers read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// The channel's name: 1 to 64 of `A-Z a-z 0-9 . _ -`.
    pub name: String,
    /// The source of the bytes.
    pub source: Source,
    /// The decoder that cuts the bytes into records. If absent, it is found when the source is
    /// read.
    pub decoder: Option<DecoderRef>,
    /// The place of `decoder` in the file, or of the channel.
    pub decoder_place: TextPosition,
    /// The digest that the decoder's file must have.
    pub sha256: Option<Digest>,
    /// The decoders that may come with the data, by the SHA-256 of their files. Only without
    /// `decoder`.
    pub trust: Vec<Digest>,
    /// The decoder's options as text, in the order in which the file has them.
    pub options: Vec<(String, String)>,
    /// The place of each of `options` in the file, in the same order.
    pub option_places: Vec<TextPosition>,
    /// Fields that are added to each record, none of them twice. `Index` only with an index.
    pub added_fields: Vec<AddedField>,
    /// The reaction to a decode error. Default: `Fail`.
    pub on_error: OnError,
    /// The reaction to a failure of the decoder: a trap, a broken contract or an exceeded limit.
    /// Default: `Fail`.
    pub on_plugin_error: OnPluginError,
    /// The channel fails after errors in more places of an epoch than this. 1 or more, default
    /// 1000; 0 if no error is skipped.
    pub max_errors: u64,
    /// The largest record in bytes, 1 KiB to 1 GiB. Default: 64 MiB.
    pub max_record: u64,
    /// How many objects are decoded at the same time. Default: 1.
    pub workers: WorkerCount,
    /// The order in which several workers' records leave. Default: `Strict`.
    pub order: RecordOrder,
    /// Which consumers get a batch. Default: `Share`.
    pub mode: Mode,
    /// Number of consumers to wait for before the first batch, 1 to 256. Always 1 with
    /// `Mode::Share`; the number of ranks with `Mode::Rank`.
    pub consumers: u32,
    /// The number of records of each batch, 1 to 1,048,576. If absent, batches leave as early as it
    /// helps their consumers.
    pub batch: Option<BatchSize>,
    /// The random order of objects and records. If absent, they keep the order of the source. The
    /// seed is also in the source's order.
    pub shuffle: Option<Shuffle>,
    /// The object from which decoder, header, types and shapes are learned, if it is not the first
    /// of the source's objects: a path, or an address in S3.
    pub learn_from: Option<String>,
    /// What the index of the source knows, once it was read. Not a key of the file.
    pub indexed: Option<Arc<Indexed>>,
    /// The state that the run resumes, or one state for each rank. Not a key of the file.
    pub resume: Vec<Resumed>,
    /// The settings of each of these states. Not a key of the file.
    pub resume_settings: Vec<std::collections::BTreeMap<String, String>>,
    /// Batches after that position that are done, too. Not a key of the file.
    pub done: Vec<u64>,
    /// The file to which the host writes the progress of the channel's consumers.
    pub checkpoint: Option<Checkpoint>,
    /// The shared memory.
    pub ring: Ring,
    /// The decoder's limits.
    pub limits: Limits,
    /// Bytes that the batches may take at the same time, with the ring's slots and the window of
    /// `shuffle`. If absent, what these need and a gibibyte more.
    pub batch_memory: Option<u64>,
}

impl Channel {
    /// The order of records, if they are shuffled.
    pub fn window_shuffle(&self) -> Option<pipemill_channel::Shuffle> {
        let Shuffle { seed, window, .. } = self.shuffle?;
        Some(pipemill_channel::Shuffle { seed, window: window? })
    }

    /// The shards that the channel reads, if it reads an index in shards.
    pub fn shards(&self) -> Option<&Shards> {
        match &self.source {
            Source::Mix(mix) => mix.shards.as_ref(),
            _ => None,
        }
    }

    /// As [`decoded`](Self::decoded), to change them.
    pub fn decoded_mut(&mut self) -> Vec<&mut Channel> {
        if !matches!(self.source, Source::Mix(_)) {
            return vec![self];
        }
        match &mut self.source {
            Source::Mix(mix) => mix.inputs.iter_mut().map(|input| &mut input.channel).collect(),
            _ => Vec::new(),
        }
    }

    /// The channels that decode: this one, or those that it mixes.
    pub fn decoded(&self) -> impl Iterator<Item = &Channel> {
        let inputs = match &self.source {
            Source::Mix(mix) => mix.inputs.as_slice(),
            _ => &[],
        };
        let itself = inputs.is_empty().then_some(self);
        itself.into_iter().chain(inputs.iter().map(|input| &input.channel))
    }

    /// A channel with all defaults, as if the file had only these three keys.
    pub fn new(name: &str, source: Source, decoder: DecoderRef) -> Channel {
        Channel {
            name: name.to_owned(),
            source,
            decoder: Some(decoder),
            decoder_place: TextPosition::default(),
            sha256: None,
            trust: Vec::new(),
            options: Vec::new(),
            option_places: Vec::new(),
            added_fields: Vec::new(),
            on_error: OnError::Fail,
            on_plugin_error: OnPluginError::Fail,
            max_errors: 0,
            max_record: keys::MAX_RECORD.default,
            workers: WorkerCount::Exactly(1),
            order: keys::ORDER.default,
            mode: keys::MODE.default,
            consumers: keys::CONSUMERS.default as u32,
            batch: None,
            shuffle: None,
            learn_from: None,
            indexed: None,
            resume: Vec::new(),
            resume_settings: Vec::new(),
            done: Vec::new(),
            checkpoint: None,
            ring: Ring::default(),
            limits: Limits::default(),
            batch_memory: None,
        }
    }
}

/// The number of threads that decode a channel's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerCount {
    /// 1 to 256. More than 1 only for a source of several objects.
    Exactly(u32),
    /// The channel's part of the cores that decode; 1 for a source that has one object at
    /// a time.
    Auto,
}

/// The random order of a channel's objects and records. The same seed gives the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shuffle {
    /// The seed, below 2^63. Each epoch has a different order.
    pub seed: u64,
    /// Least bytes of the blocks that are shuffled in place of objects, 64 KiB to 1 TiB. Only with
    /// an index.
    pub blocks: Option<u64>,
    /// Number of shards, 1 to 1,000,000, of which each of the source's parts has equally many. Only
    /// with `blocks`.
    pub shards: Option<u32>,
    /// The window in which records are shuffled: 1 MiB to 1 TiB, or 2 to 1,000,000,000 records.
    /// Only with [`Channel::batch`]. If absent, only objects are shuffled.
    pub window: Option<Window>,
}

impl Shuffle {
    /// Bytes of the window, if it is counted in bytes; otherwise 0.
    pub fn window_bytes(&self) -> u64 {
        match self.window {
            Some(Window::Bytes(bytes)) => bytes,
            Some(Window::Records(_)) | None => 0,
        }
    }
}

/// The file to which the host writes the progress of a channel's consumers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The file, which `run --resume` reads.
    pub path: PathBuf,
    /// How often it is written, 1 second to 1 hour. Default: 30 seconds.
    pub every: Duration,
}

/// The source of a channel's bytes. A relative path counts from the working directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// FIFOs, one for each epoch: `<dir>/<channel>_<epoch>`.
    Fifo {
        /// The folder in which the FIFOs appear.
        dir: PathBuf,
        /// Number of epochs to read. If absent, the host reads until it is stopped.
        epochs: Option<u32>,
        /// Number of the first epoch.
        first_epoch: u32,
        /// Time within which a FIFO must appear. If absent, there is no limit. Default: 10 minutes.
        open_timeout: Option<Duration>,
        /// The source fails if no byte comes for this time. If absent (the default), there is no
        /// limit.
        idle_timeout: Option<Duration>,
        /// The pipe's capacity that is requested from the kernel, in bytes, 4 KiB to 1 GiB.
        /// Default: 1 MiB.
        pipe_size: usize,
        /// The compression of the bytes.
        compression: Compression,
        /// A file with the number of the next epoch: a restarted process reads it.
        epoch_file: Option<PathBuf>,
    },
    /// Files.
    Files {
        /// Which files.
        pattern: Pattern,
        /// Reading options.
        reading: ReadSettings,
    },
    /// Objects in S3.
    S3(Box<s3::Settings>),
    /// The objects of an index, which is not read yet. Before a run, it is replaced by the files or
    /// the objects in S3 that the index knows.
    Index(Box<IndexSource>),
    /// Standard input, once.
    Stdin {
        /// The compression of the bytes.
        compression: Compression,
    },
    /// Records of other channels.
    Mix(Box<Mix>),
}

/// The objects of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexSource {
    /// The index: a file, or an object in S3.
    pub file: Location,
    /// The folder that the files lie in, if they were moved.
    pub root: Option<PathBuf>,
    /// The data beside which the index lies, if it was found there.
    pub data: Option<IndexedData>,
    /// The records that are left out.
    pub skip: SkipList,
    /// Order, part and epochs; and, if the objects are in S3, how they are reached and fetched. Its
    /// selection names no object.
    pub settings: s3::Settings,
}

/// The data beside which an index lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexedData {
    /// A folder.
    Folder(PathBuf),
    /// A prefix in S3.
    Prefix(Address),
}

impl IndexedData {
    /// The location of the index of this data.
    pub fn index(&self) -> Location {
        match self {
            Self::Folder(folder) => Location::File(folder.join(INDEX_NAME)),
            Self::Prefix(address) => {
                let slash =
                    if address.key.is_empty() || address.key.ends_with('/') { "" } else { "/" };
                let key = format!("{}{slash}{INDEX_NAME}", address.key);
                Location::S3(Address { key, ..address.clone() })
            }
        }
    }
}

impl fmt::Display for IndexedData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => folder.display().fmt(f),
            Self::Prefix(address) => address.fmt(f),
        }
    }
}

/// Records that are drawn from several channels, which are not served separately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix {
    /// 2 to 16 channels, in the order of their names.
    pub inputs: Vec<MixInput>,
    /// The rule for the end of an epoch. Default: `First`.
    pub until: Until,
    /// The seed of the order, below 2^63. Default: 0.
    pub seed: u64,
    /// Number of epochs. Default: 1.
    pub epochs: u32,
    /// The shards of an index that are mixed, if the channels are not those of the configuration.
    pub shards: Option<Shards>,
}

/// A channel that is mixed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MixInput {
    /// The channel. Its ring, its batches and its mode are not used.
    pub channel: Channel,
    /// The channel's weight, in millionths: 1 to 10^12.
    pub weight: u64,
}

impl Source {
    /// How the objects are compressed. `None` for a mix, which has none.
    pub fn compression(&self) -> Option<Compression> {
        match self {
            Self::Fifo { compression, .. } | Self::Stdin { compression } => Some(*compression),
            Self::Files { reading, .. } => Some(reading.compression),
            Self::S3(settings) => Some(settings.reading.compression),
            Self::Index(index) => Some(index.settings.reading.compression),
            Self::Mix(_) => None,
        }
    }

    /// Whether an object of this name is read as it is stored, so that its size is the number of
    /// bytes that are read. False if it is compressed, and for a mix.
    pub fn is_read_as_stored(&self, object: &str) -> bool {
        self.compression().is_some_and(|compression| compression.is_plain_name(object))
    }

    /// Whether its objects can be read again, and concurrently.
    pub fn can_reread(&self) -> bool {
        matches!(self, Self::Files { .. } | Self::S3(_) | Self::Index(_))
    }

    /// Whether it may have several objects that can be read concurrently.
    fn has_objects(&self) -> bool {
        match self {
            Self::Files { pattern, .. } => !matches!(pattern, Pattern::File(_)),
            Self::S3(_) | Self::Index(_) => true,
            Self::Fifo { .. } | Self::Stdin { .. } | Self::Mix(_) => false,
        }
    }

    /// The settings with which it reads objects. `None` if it has one object at a time, or is a
    /// mix.
    pub fn reading(&self) -> Option<&ReadSettings> {
        match self {
            Self::Files { reading, .. } => Some(reading),
            Self::S3(settings) => Some(&settings.reading),
            Self::Index(index) => Some(&index.settings.reading),
            Self::Fifo { .. } | Self::Stdin { .. } | Self::Mix(_) => None,
        }
    }

    /// As [`reading`](Self::reading), to change them.
    pub fn reading_mut(&mut self) -> Option<&mut ReadSettings> {
        match self {
            Self::Files { reading, .. } => Some(reading),
            Self::S3(settings) => Some(&mut settings.reading),
            Self::Index(index) => Some(&mut index.settings.reading),
            Self::Fifo { .. } | Self::Stdin { .. } | Self::Mix(_) => None,
        }
    }

    /// Shuffles the source's objects, or their blocks. False if it has one object at a time.
    pub(super) fn shuffle_objects(&mut self, seed: u64, blocks: Option<u64>) -> bool {
        if !self.has_objects() {
            return false;
        }
        let Some(reading) = self.reading_mut() else { return false };
        (reading.order.shuffle, reading.order.blocks) = (Some(seed), blocks);
        true
    }

    /// The name of the kind in reports: `fifo`, `files`, `s3`, `index`, `stdin` or `mix`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Fifo { .. } => "fifo",
            Self::Files { .. } => "files",
            Self::S3(_) => "s3",
            Self::Index(_) => "index",
            Self::Stdin { .. } => "stdin",
            Self::Mix(_) => "mix",
        }
    }
}

/// The FIFOs in a folder, with all defaults.
pub fn fifo_source(dir: PathBuf, epoch_file: Option<PathBuf>) -> Source {
    Source::Fifo {
        dir,
        epochs: None,
        first_epoch: keys::FIRST_EPOCH.default as u32,
        open_timeout: Some(Duration::from_millis(keys::OPEN_TIMEOUT.default)),
        idle_timeout: None,
        pipe_size: keys::PIPE_SIZE.default as usize,
        compression: Compression::Auto,
        epoch_file,
    }
}

/// The decoder that a channel uses. A text that contains a `/` or ends in `.wasm` is a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecoderRef {
    /// The name of a built-in decoder. The parser does not check whether there is one of this
    /// name.
    Name(String),
    /// The path of a plugin's file.
    File(PathBuf),
}

impl DecoderRef {
    /// Distinguishes a name from a file by the text alone.
    pub fn of(text: &str) -> DecoderRef {
        if text.contains('/') || text.ends_with(".wasm") {
            DecoderRef::File(text.into())
        } else {
            DecoderRef::Name(text.to_owned())
        }
    }

    /// The text again: the argument with which a plugin is loaded.
    pub fn text(&self) -> String {
        match self {
            DecoderRef::Name(name) => name.clone(),
            DecoderRef::File(path) => path.to_string_lossy().into_owned(),
        }
    }
}

/// A channel's shared memory: `slots * slot_size` bytes, at most 256 GiB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Number of slots: 4 to 4096, and at least `credits + 2`. Default: 16.
    pub slots: u32,
    /// Bytes of one slot: a multiple of 4 KiB, 64 KiB to 1 GiB. Default: 4 MiB.
    pub slot_size: usize,
    /// Whether slots may be larger than `slot_size`, and fewer than `slots`, so that a batch of a
    /// fixed size fits: the file sets no `slot_size`, and the channel has such batches.
    pub fits_batches: bool,
    /// Number of grants that a consumer may hold at once if it requests no other number, 1 to 4094.
    /// Default: 4, or `slots - 2` if that is less.
    pub credits: u32,
    /// How long a batch with records waits for more when the source has nothing ready, 0 to 1
    /// minute. Default: 10 ms.
    pub linger: Duration,
}

impl Default for Ring {
    fn default() -> Ring {
        Ring {
            slots: keys::SLOTS.default as u32,
            slot_size: keys::SLOT_SIZE.default as usize,
            fits_batches: false,
            credits: keys::CREDITS.default as u32,
            linger: Duration::from_millis(keys::LINGER.default),
        }
    }
}
