//! The Rust reader of a channel: batches in place, without a copy.
//!
//! ```no_run
//! use pipemill_ring::reader::{Event, Reader};
//! # fn main() -> Result<(), pipemill_ring::reader::ReaderError> {
//! let socket = std::env::var_os("PIPEMILL_SOCKET").expect("started by pipemill");
//! let mut reader = Reader::connect(socket.as_ref(), "train", Some(2))?;
//! loop {
//!     match reader.next()? {
//!         Event::Batch(batch) => {
//!             for record in 0..batch.records() {
//!                 let bytes = batch.field(record, 0);
//!                 println!("{}: {:?} bytes", batch.object(), bytes.map(<[u8]>::len));
//!             }
//!         }
//!         Event::EpochEnd(end) => println!("epoch {} is over", end.epoch),
//!         Event::StreamEnd => return Ok(()),
//!     }
//! }
//! # }
//! ```

mod batch;
mod connection;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use batch::Batch;
use batch::Lease;
use connection::Connection;

use crate::layout::OWN_MEMORY;
use crate::memory::{MemoryError, ReadMemory};
use crate::protocol::{
    self, EpochEnd, ErrorReport, FieldSpec, Grant, Hello, PROTOCOL, ToConsumer, Welcome,
};

/// What comes next in a channel.
#[derive(Debug)]
pub enum Event {
    /// Records.
    Batch(Batch),
    /// Every batch of an epoch was ACKed, by whomever.
    EpochEnd(EpochEnd),
    /// Nothing follows.
    StreamEnd,
}

/// Why a channel can't be read any further.
#[derive(Debug, thiserror::Error)]
pub enum ReaderError {
    /// Nobody answers there.
    #[error("{}: no pipemill host answers: {error}", path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// The kernel's answer.
        error: std::io::Error,
    },
    /// The host won't go on with this consumer.
    #[error("the host refused this consumer: {0}")]
    Refused(String),
    /// The channel failed; the report says where and why.
    #[error("{0}")]
    Failed(Box<ErrorReport>),
    /// The host hung up without saying that the stream is over.
    #[error("channel {channel:?}: the host died: it hung up before the end of the stream")]
    HostDied {
        /// The channel.
        channel: String,
    },
    /// The host did not keep to the protocol.
    #[error("channel {channel:?}: the host broke the protocol: {what}")]
    Protocol {
        /// The channel.
        channel: String,
        /// What it did.
        what: String,
    },
    /// The ring's memory can't be had.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// This process was forked from the one that connected.
    #[error("channel {channel:?}: connected before a fork; a child process must connect itself")]
    Forked {
        /// The channel.
        channel: String,
    },
    /// The kernel refused.
    #[error("the host's socket: {0}")]
    Socket(#[from] std::io::Error),
}

/// One consumer of one channel.
///
/// Its connection lasts until the last of its batches is dropped too, because the host takes a
/// hang-up for the end of all views. So don't keep batches for long without their reader: what the
/// host grants to it meanwhile, up to its credits, waits as long.
#[derive(Debug)]
pub struct Reader {
    connection: Arc<Connection>,
    ring: Arc<ReadMemory>,
    welcome: Welcome,
    fields: Option<Arc<[FieldSpec]>>,
    /// The batch that the last `next` gave.
    last: Option<Arc<Lease>>,
    finish: Option<Finish>,
    buffer: Vec<u8>,
}

/// How the channel ended; told again at each further call.
#[derive(Clone, Debug)]
enum Finish {
    StreamEnd,
    Failed(ErrorReport),
    Refused(String),
}

impl Reader {
    /// Connects to the host's socket. `credits`: the grants that this consumer may hold at once,
    /// that is batches that are not dropped; None for the channel's setting. A program that holds
    /// a batch while it asks for the next needs 2.
    pub fn connect(
        path: &Path,
        channel: &str,
        credits: Option<u32>,
    ) -> Result<Reader, ReaderError> {
        let connection = Connection::open(path, channel)?;
        let mut buffer = crate::socket::buffer();
        connection.send(&protocol::hello(&Hello {
            protocol: PROTOCOL,
            channel: channel.into(),
            credits,
            client: concat!("rust, pipemill-ring ", env!("CARGO_PKG_VERSION")).into(),
        }));
        let broke = |what: String| connection.broke(what);
        let (welcome, fd) = match connection.receive(&mut buffer)? {
            (ToConsumer::Welcome(welcome), Some(fd)) => (welcome, fd),
            (ToConsumer::Refused(message), _) => return Err(ReaderError::Refused(message)),
            (ToConsumer::Welcome(_), None) => return Err(broke("WELCOME without memory".into())),
            (other, _) => return Err(broke(format!("{other:?} in answer to HELLO"))),
        };
        let bytes = welcome.slot_bytes.checked_mul(welcome.slots.into());
        let fits = welcome.slot_bytes.is_multiple_of(64) && welcome.protocol == PROTOCOL;
        let Some(bytes) = bytes.filter(|_| fits) else {
            return Err(broke(format!("a WELCOME that can't be: {welcome:?}")));
        };
        let ring = Arc::new(ReadMemory::map(fd, bytes)?);
        let connection = Arc::new(connection);
        Ok(Reader { connection, ring, welcome, fields: None, last: None, finish: None, buffer })
    }

    /// What the host said of the channel.
    pub fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// The fields of every record; None before the host has said so, which it does before the
    /// first batch.
    pub fn fields(&self) -> Option<&[FieldSpec]> {
        self.fields.as_deref()
    }

    /// ACKs the batch that the last call gave, if that was not done, and waits for what comes
    /// next. Batches that were given before stay good for as long as they are kept, but each of
    /// them takes one of the credits.
    ///
    /// At an end or an error, every further call says the same.
    #[expect(clippy::should_implement_trait, reason = "an error is the end, an end is not None")]
    pub fn next(&mut self) -> Result<Event, ReaderError> {
        self.connection.check_process()?;
        if let Some(lease) = self.last.take() {
            lease.ack();
        }
        self.connection.release_abandoned();
        loop {
            if let Some(finish) = &self.finish {
                return match finish.clone() {
                    Finish::StreamEnd => Ok(Event::StreamEnd),
                    Finish::Failed(report) => Err(ReaderError::Failed(report.into())),
                    Finish::Refused(message) => Err(ReaderError::Refused(message)),
                };
            }
            let (message, fd) = self.connection.receive(&mut self.buffer)?;
            match message {
                ToConsumer::Schema(fields) => self.fields = Some(fields.into()),
                ToConsumer::Grant(grant) => return self.batch(grant, fd).map(Event::Batch),
                ToConsumer::EpochEnd(end) => return Ok(Event::EpochEnd(end)),
                ToConsumer::StreamEnd => self.finish = Some(Finish::StreamEnd),
                ToConsumer::Error(report) => self.finish = Some(Finish::Failed(report)),
                ToConsumer::Refused(message) => self.finish = Some(Finish::Refused(message)),
                ToConsumer::Welcome(_) => {
                    return Err(self.connection.broke("a second WELCOME".into()));
                }
                ToConsumer::Status(_) => {
                    return Err(self.connection.broke("a STATUS that nobody asked for".into()));
                }
            }
        }
    }

    /// Asks for the rest of an epoch to be left out. Batches that were granted before still come,
    /// and then its EPOCH_END. Without effect if it is not the current epoch.
    pub fn end_epoch(&self, epoch: u32) {
        self.connection.send(&protocol::end_epoch(epoch));
    }

    fn batch(&mut self, grant: Grant, fd: Option<OwnedFd>) -> Result<Batch, ReaderError> {
        let Some(fields) = self.fields.clone() else {
            return Err(self.connection.broke("GRANT before SCHEMA".into()));
        };
        let (memory, from) = match (grant.slot, fd) {
            (OWN_MEMORY, Some(fd)) => (Arc::new(ReadMemory::map(fd, grant.bytes)?), 0),
            (slot, None) if slot < self.welcome.slots && grant.bytes <= self.welcome.slot_bytes => {
                (self.ring.clone(), u64::from(slot) * self.welcome.slot_bytes)
            }
            (slot, fd) => {
                let with = if fd.is_some() { "with" } else { "without" };
                let bytes = grant.bytes;
                let what =
                    format!("GRANT of {bytes} bytes in slot {slot} {with} memory of its own");
                return Err(self.connection.broke(what));
            }
        };
        let lease = Arc::new(Lease::new(self.connection.clone(), grant.grant));
        let batch = Batch::open(memory, from, &grant, fields, lease.clone())
            .map_err(|what| self.connection.broke(what))?;
        self.last = Some(lease);
        Ok(batch)
    }
}

impl AsFd for Reader {
    /// For polling: readable when [`next`](Reader::next) would not wait.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }
}
