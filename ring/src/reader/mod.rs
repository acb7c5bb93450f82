//! The Rust reader of a channel. It returns batches in shared memory, without a copy.
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
mod error;
mod state;
mod waits_for;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use batch::Batch;
use batch::Lease;
use connection::Connection;
pub use error::ReaderError;
use state::Tracker;

use crate::layout::DEDICATED;
use crate::memory::ReadMemory;
use crate::protocol::{
    self, EpochEnd, ErrorReport, Field, Grant, Hello, LargerSlots, MAX_MESSAGE, PROTOCOL, State,
    ToConsumer, Welcome,
};

/// The reader's name in HELLO, unless a program sets another one.
const CLIENT: &str = concat!("rust, pipemill-ring ", env!("CARGO_PKG_VERSION"));

/// The next event of a channel.
#[derive(Debug)]
pub enum Event {
    /// A batch of records.
    Batch(Batch),
    /// The end of an epoch: every batch of it was ACKed, by this consumer or others.
    EpochEnd(EpochEnd),
    /// The end of the stream. Nothing follows.
    StreamEnd,
}

/// One consumer of one channel.
///
/// Its connection stays open until the last of its batches is dropped too: after a hang-up the host
/// would reuse their memory for others. So don't keep batches for long without their reader: the
/// host may grant it more batches meanwhile, up to its credits, and nobody reads these.
#[derive(Debug)]
pub struct Reader {
    connection: Arc<Connection>,
    ring: Arc<ReadMemory>,
    larger: Option<(LargerSlots, Arc<ReadMemory>)>,
    welcome: Welcome,
    fields: Option<Arc<[Field]>>,
    /// The batch that the last `next` returned.
    last: Option<Arc<Lease>>,
    end: Option<FinalEvent>,
    tracker: Tracker,
    buffer: Vec<u8>,
}

/// The end or the error of the channel. Each further call of `next` returns it again.
#[derive(Clone, Debug)]
enum FinalEvent {
    StreamEnd,
    Failed(ErrorReport),
    Refused(String),
}

impl Reader {
    /// Connects to the host's socket at `path`. `credits` is the number of grants that this
    /// consumer may hold at once, 1 or more; `None`: the channel's setting. A grant is held until
    /// its batch is dropped, so a program that keeps a batch while it asks for the next one needs
    /// 2.
    ///
    /// The host must belong to this user or to root: its memory is trusted.
    ///
    /// # Errors
    /// [`ReaderError::Connect`] if no host answers, [`ReaderError::OtherUser`] if another user
    /// serves the path, [`ReaderError::Refused`] with the host's reason, [`ReaderError::Protocol`]
    /// or [`ReaderError::Memory`] if the host's answer is wrong.
    pub fn connect(
        path: &Path,
        channel: &str,
        credits: Option<u32>,
    ) -> Result<Reader, ReaderError> {
        Reader::connect_as(path, &Hello { credits, ..Hello::new(channel, CLIENT) }, false)
    }

    /// Connects as a consumer with more requests: a number of records of each batch, a part of the
    /// batches, a [state](Reader::state) after which it resumes. With `allow_other_users` the host
    /// may belong to any user, who is then trusted with everything that this program does with the
    /// records.
    ///
    /// # Errors
    /// As for [`connect`](Reader::connect), and [`ReaderError::Protocol`] if HELLO is longer than a
    /// message may be.
    pub fn connect_as(
        path: &Path,
        hello: &Hello,
        allow_other_users: bool,
    ) -> Result<Reader, ReaderError> {
        let connection = Connection::open(path, &hello.channel, allow_other_users)?;
        let mut buffer = crate::socket::buffer();
        let message = protocol::hello(&Hello { larger_slots: true, ..hello.clone() });
        if message.len() > MAX_MESSAGE {
            let (bytes, most) = (message.len(), MAX_MESSAGE);
            return Err(connection.broke(format!("HELLO of {bytes} bytes; at most {most} fit")));
        }
        connection.send(&message);
        let broke = |what: String| connection.broke(what);
        let (welcome, fd) = match connection.receive(&mut buffer)? {
            (ToConsumer::Welcome(welcome), Some(fd)) => (welcome, fd),
            (ToConsumer::Refused(message), _) => return Err(ReaderError::Refused(message)),
            (ToConsumer::Welcome(_), None) => return Err(broke("WELCOME without memory".into())),
            (other, _) => return Err(broke(format!("{other:?} in answer to HELLO"))),
        };
        if welcome.protocol != PROTOCOL {
            return Err(broke(format!(
                "WELCOME of a host that speaks protocol {}, and this reader speaks protocol \
                 {PROTOCOL}; use a reader of the same release",
                welcome.protocol
            )));
        }
        let bytes = welcome.slot_bytes.checked_mul(welcome.slots.into());
        let fits = welcome.slot_bytes.is_multiple_of(64);
        let Some(bytes) = bytes.filter(|_| fits) else {
            return Err(broke(format!("an impossible WELCOME: {welcome:?}")));
        };
        let ring = Arc::new(ReadMemory::map(fd, bytes)?);
        let (connection, tracker) = (Arc::new(connection), Tracker::new(&welcome, hello));
        let (larger, fields, last, end) = (None, None, None, None);
        Ok(Reader { connection, ring, larger, welcome, fields, last, end, tracker, buffer })
    }

    /// The host's description of the channel.
    pub fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// The fields of every record. `None` until [`next`](Reader::next) has received them, which
    /// happens before it returns the first batch.
    pub fn fields(&self) -> Option<&[Field]> {
        self.fields.as_deref()
    }

    /// The position from which this program resumes if it is started again: after the last batch
    /// that it received. As JSON it is the form for [`Hello::state`], and a host can be started
    /// with it.
    ///
    /// # Errors
    /// [`ReaderError::Gap`] if this consumer did not receive all batches, and
    /// [`ReaderError::AnyOrder`] inside an epoch whose order differs from run to run.
    pub fn state(&self) -> Result<State, ReaderError> {
        self.tracker.state(self.fields())
    }

    /// ACKs the batch that the last call returned, unless that was done, and waits for the next
    /// event. Batches of earlier calls stay readable while they are kept, but each of them takes
    /// one of the credits.
    ///
    /// # Errors
    /// [`ReaderError`] names each. After an end or an error of the channel, every further call
    /// returns the same.
    #[expect(clippy::should_implement_trait, reason = "an error is the end, an end is not None")]
    pub fn next(&mut self) -> Result<Event, ReaderError> {
        self.ack_last()?;
        loop {
            if let Some(end) = &self.end {
                return match end.clone() {
                    FinalEvent::StreamEnd => Ok(Event::StreamEnd),
                    FinalEvent::Failed(report) => Err(ReaderError::Failed(report.into())),
                    FinalEvent::Refused(message) => Err(ReaderError::Refused(message)),
                };
            }
            let (message, fd) = self.connection.receive(&mut self.buffer)?;
            match message {
                ToConsumer::Schema(fields) => self.fields = Some(fields.into()),
                ToConsumer::LargerSlots(slots) => self.map_larger(slots, fd)?,
                ToConsumer::Grant(grant) => return self.batch(grant, fd).map(Event::Batch),
                ToConsumer::EpochEnd(end) => {
                    self.tracker.epoch_end(&end);
                    return Ok(Event::EpochEnd(end));
                }
                ToConsumer::StreamEnd => self.end = Some(FinalEvent::StreamEnd),
                ToConsumer::Error(report) => self.end = Some(FinalEvent::Failed(report)),
                ToConsumer::Refused(message) => self.end = Some(FinalEvent::Refused(message)),
                ToConsumer::Welcome(_) => {
                    return Err(self.connection.broke("a second WELCOME".into()));
                }
                ToConsumer::Status(_) => {
                    return Err(self.connection.broke("a STATUS without GET_STATUS".into()));
                }
            }
        }
    }

    /// ACKs the batch that the last call of [`next`](Reader::next) returned, and waits until the
    /// host has sent something or hung up, at most for `limit`. Returns whether it has.
    ///
    /// # Errors
    /// [`ReaderError::Forked`], and [`ReaderError::Socket`] if the kernel can't wait.
    pub fn wait(&mut self, limit: Duration) -> Result<bool, ReaderError> {
        self.ack_last()?;
        self.connection.wait(Instant::now() + limit)
    }

    fn ack_last(&mut self) -> Result<(), ReaderError> {
        self.connection.check_process()?;
        if let Some(lease) = self.last.take() {
            lease.ack();
        }
        self.connection.release_abandoned();
        Ok(())
    }

    /// Requests to skip the rest of an epoch. Batches that were granted before still come, followed
    /// by its EPOCH_END. It has no effect if the epoch is not the current one.
    pub fn end_epoch(&self, epoch: u32) {
        self.connection.send(&protocol::end_epoch(epoch));
    }

    /// Maps larger slots, once.
    fn map_larger(&mut self, slots: LargerSlots, fd: Option<OwnedFd>) -> Result<(), ReaderError> {
        let broke = |what: String| self.connection.broke(format!("LARGER_SLOTS {what}"));
        if let Some((known, _)) = &self.larger {
            return Err(broke(format!("after {known:?}: expected it once")));
        }
        let LargerSlots { slot_bytes, first, slots: count } = slots;
        let fd = fd.ok_or_else(|| broke("without a file descriptor: expected one".into()))?;
        let ring = self.welcome.slots;
        if first < ring || count == 0 || count > DEDICATED - first {
            return Err(broke(format!(
                "of {count} slots from number {first} on: expected one or more, with numbers from \
                 {ring} to {}",
                DEDICATED - 1
            )));
        }
        let bytes = slot_bytes.checked_mul(count.into());
        let fits = slot_bytes > 0 && slot_bytes.is_multiple_of(64);
        let Some(bytes) = bytes.filter(|_| fits) else {
            return Err(broke(format!(
                "of {count} slots of {slot_bytes} bytes: expected a multiple of 64 that memory can \
                 have"
            )));
        };
        self.larger = Some((slots, Arc::new(ReadMemory::map(fd, bytes)?)));
        Ok(())
    }

    /// The memory and the position of a grant in a larger slot, if it is in one.
    fn in_larger(&self, grant: &Grant) -> Option<(Arc<ReadMemory>, u64)> {
        let (slots, memory) = self.larger.as_ref()?;
        let at = grant.slot.checked_sub(slots.first)?;
        let is_inside = at < slots.slots && grant.bytes <= slots.slot_bytes;
        is_inside.then(|| (memory.clone(), u64::from(at) * slots.slot_bytes))
    }

    fn batch(&mut self, grant: Grant, fd: Option<OwnedFd>) -> Result<Batch, ReaderError> {
        let Some(fields) = self.fields.clone() else {
            return Err(self.connection.broke("GRANT before SCHEMA".into()));
        };
        let (memory, from) = match (grant.slot, fd) {
            (DEDICATED, Some(fd)) => (Arc::new(ReadMemory::map(fd, grant.bytes)?), 0),
            (slot, None) if slot < self.welcome.slots && grant.bytes <= self.welcome.slot_bytes => {
                (self.ring.clone(), u64::from(slot) * self.welcome.slot_bytes)
            }
            (_, None) if let Some(place) = self.in_larger(&grant) => place,
            (slot, fd) => {
                let with = if fd.is_some() { "with" } else { "without" };
                let bytes = grant.bytes;
                let what =
                    format!("GRANT of {bytes} bytes in slot {slot} {with} a dedicated buffer");
                return Err(self.connection.broke(what));
            }
        };
        let lease = Arc::new(Lease::new(self.connection.clone(), grant.grant));
        let batch = Batch::open(memory, from, &grant, fields, lease.clone())
            .map_err(|what| self.connection.broke(what))?;
        self.tracker.batch(&batch);
        self.last = Some(lease);
        Ok(batch)
    }
}

impl AsFd for Reader {
    /// The socket, for polling: it is readable when [`next`](Reader::next) does not wait.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }
}
