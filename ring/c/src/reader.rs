//! A consumer of a channel: connects, waits for events, returns its state.

use std::ffi::{CString, c_char};
use std::io::ErrorKind as Io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use pipemill_ring::protocol::EpochEnd;
use pipemill_ring::reader::{self as ring, ReaderError};

use crate::batch::Batch;
use crate::error::{Error, ErrorKind, reported};
use crate::guard::guarded;
use crate::options::{Options, Wishes};
use crate::schema::Schema;
use crate::text;

/// Pause between two attempts to reach a host that has not started yet.
const PAUSE: Duration = Duration::from_millis(10);

/// One consumer of one channel. One thread at a time may use it. Close it with `pipemill_close`.
pub struct Reader {
    /// The descriptor of the socket. It is closed with the reader and all of its batches.
    descriptor: i32,
    consumer: Mutex<Consumer>,
}

struct Consumer {
    ring: ring::Reader,
    /// `None`: for ever.
    hold: Option<Duration>,
    /// Number of batches that the program holds.
    held: Arc<AtomicUsize>,
    schema: Option<Arc<Schema>>,
    /// The last result of `pipemill_state`.
    state: CString,
    /// The last result of `pipemill_waits_for`.
    waits_for: CString,
}

/// The next event of a channel: a batch, an end or an error.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// There is no event: the call failed, and its error says why.
    Failed = 0,
    /// A batch of records.
    Batch,
    /// The end of an epoch: every batch of it was ACKed, by this consumer or others.
    EpochEnd,
    /// The end of the stream. Nothing follows.
    StreamEnd,
}

/// The result of `pipemill_next`.
#[repr(C)]
pub struct Event {
    /// Its kind.
    pub kind: EventKind,
    /// Number of the epoch, of a batch or of an epoch's end; from 0.
    pub epoch: u32,
    /// The batch. Return it with `pipemill_release`. Null for all other kinds.
    pub batch: *mut Batch,
    /// For an epoch's end: number of delivered batches, to all consumers together.
    pub batches: u64,
    /// For an epoch's end: number of records in these batches.
    pub records: u64,
    /// For an epoch's end: whether part of the epoch was skipped, or not read.
    pub early: bool,
}

impl Event {
    fn new(kind: EventKind) -> Event {
        Event { kind, epoch: 0, batch: null_mut(), batches: 0, records: 0, early: false }
    }

    fn end_of(epoch: &EpochEnd) -> Event {
        Event {
            epoch: epoch.epoch,
            batches: epoch.batches,
            records: epoch.records,
            early: epoch.early,
            ..Event::new(EventKind::EpochEnd)
        }
    }
}

impl Reader {
    fn open(
        socket: Option<&Path>,
        channel: &str,
        options: Option<&Options>,
    ) -> Result<Reader, Error> {
        let wishes = Wishes::new(channel, options)?;
        let ring = connect(&socket_or_default(socket)?, &wishes)?;
        let consumer = Consumer {
            hold: wishes.hold,
            held: Arc::default(),
            schema: None,
            state: CString::default(),
            waits_for: CString::default(),
            ring,
        };
        let descriptor = consumer.ring.as_fd().as_raw_fd();
        Ok(Reader { descriptor, consumer: Mutex::new(consumer) })
    }

    fn lock(&self) -> Result<MutexGuard<'_, Consumer>, Error> {
        self.consumer.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => Error::argument(
                "another thread is in a function of this reader; one thread at a time may be, so \
                 guard the reader with a mutex, or connect one for each thread",
            ),
            TryLockError::Poisoned(_) => Error::internal("an earlier call on this reader failed"),
        })
    }
}

impl Consumer {
    fn next(&mut self) -> Result<Event, Error> {
        self.wait_for_credit()?;
        let batch = match self.ring.next()? {
            ring::Event::Batch(batch) => batch,
            ring::Event::EpochEnd(end) => return Ok(Event::end_of(&end)),
            ring::Event::StreamEnd => return Ok(Event::new(EventKind::StreamEnd)),
        };
        let schema = match &self.schema {
            Some(schema) if schema.is_of(batch.fields()) => schema.clone(),
            _ => self.schema.insert(Arc::new(Schema::new(batch.fields()))).clone(),
        };
        let epoch = batch.epoch();
        let batch = Box::into_raw(Box::new(Batch::new(batch, schema, self.held.clone())));
        Ok(Event { epoch, batch, ..Event::new(EventKind::Batch) })
    }

    /// The host grants nothing to a program that holds as many batches as its credits allow.
    /// Without this check, a program that forgets to release them would wait silently.
    fn wait_for_credit(&mut self) -> Result<(), Error> {
        let (credits, Some(hold)) = (self.ring.welcome().credits as usize, self.hold) else {
            return Ok(());
        };
        let is_full = |held: &AtomicUsize| held.load(Ordering::Relaxed) >= credits;
        if !is_full(&self.held) || self.ring.wait(hold)? || !is_full(&self.held) {
            return Ok(());
        }
        let channel = &self.ring.welcome().channel;
        let message = format!(
            "channel {channel:?}: this program holds {} batches, all that it may ({credits} \
             credits), and has released none for {:.1} s while it asked for another; give batches \
             back with pipemill_release, or connect with more credits",
            self.held.load(Ordering::Relaxed),
            hold.as_secs_f64()
        );
        Err(Error::new(ErrorKind::Held, &message))
    }

    fn state(&mut self) -> Result<*const c_char, Error> {
        let state = self.ring.state()?;
        let json = serde_json::to_string(&state)
            .map_err(|error| Error::internal(&format!("the state is not JSON: {error}")))?;
        self.state = text::for_c(&json);
        Ok(self.state.as_ptr())
    }

    fn waits_for(&mut self) -> *const c_char {
        let Some(what) = self.ring.waits_for() else { return std::ptr::null() };
        self.waits_for = text::for_c(&what);
        self.waits_for.as_ptr()
    }
}

fn socket_or_default(socket: Option<&Path>) -> Result<PathBuf, Error> {
    let environment = || std::env::var_os("PIPEMILL_SOCKET").filter(|path| !path.is_empty());
    socket.map(Path::to_owned).or_else(|| environment().map(PathBuf::from)).ok_or_else(|| {
        Error::new(
            ErrorKind::Connect,
            "where is the pipemill host? $PIPEMILL_SOCKET is not set; run this program with \
             `pipemill run --config FILE -- COMMAND`, or give pipemill_connect the socket's path",
        )
    })
}

/// A connected reader. Waits for a host that has not started yet.
fn connect(path: &Path, wishes: &Wishes) -> Result<ring::Reader, Error> {
    let wait = wishes.wait;
    let end = wait.map(|wait| Instant::now() + wait);
    loop {
        let error = match ring::Reader::connect_as(path, &wishes.hello, wishes.allow_other_users) {
            Ok(reader) => return Ok(reader),
            Err(error) => error,
        };
        let ReaderError::Connect { error: cause, .. } = &error else { return Err(error.into()) };
        let is_early = matches!(cause.kind(), Io::NotFound | Io::ConnectionRefused);
        if is_early && end.is_some_and(|end| Instant::now() < end) {
            std::thread::sleep(PAUSE);
            continue;
        }
        let waited = match wait.filter(|_| is_early) {
            Some(wait) => format!(", waited {} s for it", wait.as_secs_f64()),
            None => String::new(),
        };
        let message = format!(
            "no pipemill host could be reached at the socket {path:?}{waited}: {cause}; check that \
             `pipemill run` is running, that $PIPEMILL_SOCKET is its socket, or set wait_ms of the \
             options"
        );
        return Err(Error::new(ErrorKind::Connect, &message));
    }
}

fn missing(function: &str) -> Error {
    Error::argument(format!("{function}: reader is NULL; expected what pipemill_connect returned"))
}

/// Connects to a channel of a host.
///
/// `socket`: path of the host's socket; null for the path in the environment variable
/// `PIPEMILL_SOCKET`, which pipemill sets for the command that it starts. `channel`: its name in
/// the host's configuration. `options`: null for the default of each.
///
/// Returns null if it fails. If so, `*error` says why, unless `error` is null: no host answers, it
/// belongs to another user, or it refuses this consumer with a reason. Waits for a host that has
/// not started yet, ten seconds unless the options set another time.
#[unsafe(no_mangle)]
pub extern "C" fn pipemill_connect(
    socket: *const c_char,
    channel: *const c_char,
    options: Option<&Options>,
    error: Option<&mut MaybeUninit<*mut Error>>,
) -> *mut Reader {
    reported(error, null_mut(), || {
        let channel = text::required("pipemill_connect: channel", channel)?;
        let reader = Reader::open(text::path(socket), channel, options)?;
        Ok(Box::into_raw(Box::new(reader)))
    })
}

/// Waits for the next event: a batch, the end of an epoch, or the end of the stream.
///
/// It first ACKs the batch that the last call returned, if that was not done: the program has
/// processed it. Batches of earlier calls stay readable until they are released, but each takes one
/// of the credits.
///
/// The event's kind is `PIPEMILL_EVENT_KIND_FAILED` if it fails. If so, `*error` says why, unless
/// `error` is null: the channel failed, the host died, or the program holds too many batches. After
/// an end or a failure of the channel, every further call returns the same. A signal does not end
/// the wait; to wait for something else, too, poll `pipemill_descriptor`.
#[unsafe(no_mangle)]
pub extern "C" fn pipemill_next(
    reader: Option<&Reader>,
    error: Option<&mut MaybeUninit<*mut Error>>,
) -> Event {
    reported(error, Event::new(EventKind::Failed), || {
        reader.ok_or_else(|| missing("pipemill_next"))?.lock()?.next()
    })
}

/// The socket, for `poll`: if it is readable, `pipemill_next` does not wait long, because the host
/// has sent something or hung up. -1 if `reader` is null. Do not read from it or close it.
#[unsafe(no_mangle)]
pub extern "C" fn pipemill_descriptor(reader: Option<&Reader>) -> i32 {
    reader.map_or(-1, |reader| reader.descriptor)
}

/// The position from which this program resumes if it is started again: after the last batch that
/// it received. It is JSON, for `state` of the options, and for `pipemill run --resume`.
///
/// It is valid until the next call of this function, or `pipemill_close`. Null if it fails; if so,
/// `*error` says why, unless `error` is null: this program did not receive all batches, because the
/// channel has other consumers.
#[unsafe(no_mangle)]
pub extern "C" fn pipemill_state(
    reader: Option<&Reader>,
    error: Option<&mut MaybeUninit<*mut Error>>,
) -> *const c_char {
    reported(error, std::ptr::null(), || {
        reader.ok_or_else(|| missing("pipemill_state"))?.lock()?.state()
    })
}

/// The reason why the channel waits, according to the host, in words for a message: the rank that
/// has left or has not come, the writer of a FIFO, an object. It is meant for a program whose
/// `poll` of `pipemill_descriptor` has timed out for some seconds.
///
/// It is valid until the next call of this function, or `pipemill_close`. Null if the channel does
/// not wait, or the host does not answer within 5 seconds; and if it fails: `*error` then says why,
/// unless `error` is null: another thread uses the reader, or it is null.
#[unsafe(no_mangle)]
pub extern "C" fn pipemill_waits_for(
    reader: Option<&Reader>,
    error: Option<&mut MaybeUninit<*mut Error>>,
) -> *const c_char {
    reported(error, std::ptr::null(), || {
        Ok(reader.ok_or_else(|| missing("pipemill_waits_for"))?.lock()?.waits_for())
    })
}

/// Requests to skip the rest of this epoch. Batches that were granted before still come, followed
/// by the epoch's end. It has no effect if the epoch is not the current one.
///
/// Returns false if it fails; if so, `*error` says why, unless `error` is null.
#[unsafe(no_mangle)]
pub extern "C" fn pipemill_end_epoch(
    reader: Option<&Reader>,
    epoch: u32,
    error: Option<&mut MaybeUninit<*mut Error>>,
) -> bool {
    reported(error, false, || {
        reader.ok_or_else(|| missing("pipemill_end_epoch"))?.lock()?.ring.end_epoch(epoch);
        Ok(true)
    })
}

/// Ends the consumer. Null is allowed. Batches that are not released stay readable, and the
/// connection ends with the last of them.
///
/// The last batch is not ACKed here: release it, or ACK it, if it was processed.
#[unsafe(no_mangle)]
pub extern "C" fn pipemill_close(reader: Option<Box<Reader>>) {
    guarded(|_| (), || drop(reader));
}
