//! The configuration: plain data for the rest of the host, with units, ranges and defaults.
//! [`parse`] makes it from TOML and finds all faults at once; [`show`] writes it as TOML again.

mod document;
mod fault;
mod key;
mod keys;
mod parse;
mod rank;
mod read;
mod s3_source;
mod show;
mod source;
#[cfg(test)]
mod tests;
mod values;
mod vars;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use fault::{Fault, Place};
pub use parse::{is_channel_name, parse, parse_over, parse_to_feed};
pub use pipemill_channel::OnError;
pub use pipemill_decode::{Digest, Limits};
pub use pipemill_source::{Balance, Compression, Order, Pattern, Reading, Shard, s3};
pub use pipemill_types::Mode;
pub use show::show;
pub use values::{Invalid, parse_duration, parse_size, show_duration, show_size};

/// The whole configuration of one host process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The file's name as given to [`parse`], for messages.
    pub file: String,
    /// Where consumers connect; the host decides if absent. At most 107 bytes.
    pub socket: Option<PathBuf>,
    /// Whether processes of other users may connect. Default: no.
    pub allow_other_users: bool,
    /// Where metrics are served, if anywhere.
    pub metrics: Option<Listen>,
    /// From the request to end to the command's SIGKILL. Default: 110 seconds.
    pub stop_timeout: Duration,
    /// From a channel's failure to the request to end. Default: 10 seconds.
    pub fail_grace: Duration,
    /// Bytes that all channels together may have fetched from S3 and not read yet, 8 MiB to 1 TiB; the host
    /// decides if absent.
    pub s3_budget: Option<u64>,
    /// At least one; no two have the same name.
    pub channels: Vec<Channel>,
}

/// Where something is served over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A Unix socket; its path has a `/` and at most 107 bytes.
    Unix(PathBuf),
}

/// One line from a source through a decoder to consumers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// 1 to 64 of `A-Z a-z 0-9 . _ -`.
    pub name: String,
    /// Where the bytes come from.
    pub source: Source,
    /// What cuts them into records.
    pub decoder: DecoderRef,
    /// Where `decoder` stands in the file.
    pub decoder_place: Place,
    /// The digest that the decoder's file must have.
    pub sha256: Option<Digest>,
    /// The decoder's options as text, in the order of the file.
    pub options: Vec<(String, String)>,
    /// Where each of `options` stands in the file: as many, in the same order.
    pub option_places: Vec<Place>,
    /// What happens at a place that can't be decoded. Default: `Fail`.
    pub on_error: OnError,
    /// More bad places than this end the channel. 1 or more, default 1000; 0 with `OnError::Fail`.
    pub max_errors: u64,
    /// The largest record in bytes, 1 KiB to 1 GiB. Default: 64 MiB.
    pub max_record: u64,
    /// Who gets a batch. Default: `Share`.
    pub mode: Mode,
    /// Consumers to wait for before the first batch, 1 to 256. Always 1 with `Mode::Share`.
    pub consumers: u32,
    /// The shared memory.
    pub ring: Ring,
    /// What the decoder may use.
    pub limits: Limits,
}

impl Channel {
    /// A channel with every default, as if only these three stood in the file.
    pub fn new(name: &str, source: Source, decoder: DecoderRef) -> Channel {
        Channel {
            name: name.to_owned(),
            source,
            decoder,
            decoder_place: Place::default(),
            sha256: None,
            options: Vec::new(),
            option_places: Vec::new(),
            on_error: OnError::Fail,
            max_errors: 0,
            max_record: keys::MAX_RECORD.default,
            mode: keys::MODE.default,
            consumers: keys::CONSUMERS.default as u32,
            ring: Ring::default(),
            limits: Limits::default(),
        }
    }
}

/// Where a channel's bytes come from. Paths that are not absolute count from the working directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// One FIFO an epoch, `<dir>/<channel>_<epoch>`.
    Fifo {
        /// The folder in which the FIFOs appear.
        dir: PathBuf,
        /// How many epochs to read; absent: until the host is told to stop.
        epochs: Option<u32>,
        /// Number of the first one.
        first_epoch: u32,
        /// How long a FIFO may take to appear; absent: for ever. Default: 10 minutes.
        open_timeout: Option<Duration>,
        /// No byte for so long is an error; absent (the default): never.
        idle_timeout: Option<Duration>,
        /// The pipe's capacity to ask the kernel for, in bytes, 4 KiB to 1 GiB. Default: 1 MiB.
        pipe_size: usize,
        /// How the bytes are compressed.
        compression: Compression,
        /// Keeps the next epoch's number for a process that comes after this one.
        epoch_file: Option<PathBuf>,
    },
    /// Files.
    Files {
        /// Which.
        pattern: Pattern,
        /// How they are read.
        reading: Reading,
    },
    /// Objects in S3.
    S3(Box<s3::Settings>),
    /// Standard input, once.
    Stdin {
        /// How the bytes are compressed.
        compression: Compression,
    },
}

impl Source {
    /// The word for its kind in reports: `fifo`, `files`, `s3` or `stdin`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Fifo { .. } => "fifo",
            Self::Files { .. } => "files",
            Self::S3(_) => "s3",
            Self::Stdin { .. } => "stdin",
        }
    }
}

/// The FIFOs in a folder, with every default.
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

/// What holds for a channel if the file does not say otherwise, because somebody else describes it: a platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Where its bytes come from.
    pub source: Source,
    /// What cuts them into records; or why that can't be told.
    pub decoder: Result<DecoderRef, String>,
}

/// What somebody else describes: a platform.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Presets {
    /// Channels, by name.
    pub channels: BTreeMap<String, Preset>,
    /// Which of the machines this is, from 0, and how many there are.
    pub rank: Option<(u32, u32)>,
}

/// Which decoder a channel uses. What has a `/` in it or ends in `.wasm` is a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecoderRef {
    /// The name of one that comes with the host, or that is in a folder of the plugin path. Whether there
    /// is such a one is for the host to say.
    Name(String),
    /// A component's file.
    File(PathBuf),
}

impl DecoderRef {
    /// Tells a name from a file by the text alone.
    pub fn of(text: &str) -> DecoderRef {
        if text.contains('/') || text.ends_with(".wasm") {
            DecoderRef::File(text.into())
        } else {
            DecoderRef::Name(text.to_owned())
        }
    }

    /// The text again, as plugins are loaded by it.
    pub fn text(&self) -> String {
        match self {
            DecoderRef::Name(name) => name.clone(),
            DecoderRef::File(path) => path.to_string_lossy().into_owned(),
        }
    }
}

/// A channel's shared memory: `slots * slot` bytes, at most 256 GiB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ring {
    /// 4 to 4096, and at least `credits + 2`. Default: 16.
    pub slots: u32,
    /// Bytes of one slot: a multiple of 4 KiB, 64 KiB to 1 GiB. Default: 4 MiB.
    pub slot_size: usize,
    /// Grants that a consumer may hold at once if it does not say otherwise, 1 to 4094. Default: 2.
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
            credits: keys::CREDITS.default as u32,
            linger: Duration::from_millis(keys::LINGER.default),
        }
    }
}

/// The default of `limits.output`: what a call is shown is about a record or a slot long.
pub fn default_output(max_record: u64, slot: usize) -> u64 {
    4 * max_record.max(slot as u64)
}
