//! The error for C: its kind, and its text for a person.

use std::ffi::{CStr, CString, c_char};
use std::mem::MaybeUninit;

use pipemill_ring::protocol::ErrorKind as Failure;
use pipemill_ring::reader::ReaderError;

use crate::guard::guarded;
use crate::text;

/// The kind of an error.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ErrorKind {
    /// There is no error.
    #[default]
    None = 0,
    /// An argument is wrong: it is null or out of its range, or another thread uses the reader.
    Argument,
    /// No host answers at the socket, or it belongs to another user.
    Connect,
    /// The host refused this consumer: there is no such channel, or the consumer may not read it
    /// with these options.
    Refused,
    /// The host hung up before the end of the stream: it has crashed or was killed.
    HostDied,
    /// The host sent something that the protocol does not allow, or its memory can't be mapped.
    Protocol,
    /// This program did not receive all batches of the channel, so it has no state.
    State,
    /// The process was forked from the one that connected.
    Fork,
    /// The program asked for a batch while it held as many as its credits allow.
    Held,
    /// The channel failed: the input does not fit its format.
    Decode,
    /// The channel failed: the decoder does not support its options or the input.
    DecoderRefused,
    /// The channel failed: the decoder failed or broke its contract.
    Plugin,
    /// The channel failed: the input can't be read.
    Source,
    /// The channel failed: a limit of its configuration was hit.
    Limit,
    /// The channel failed: the host itself failed.
    Host,
    /// The library failed. This is a bug in pipemill: please report it.
    Internal,
}

/// Why a function failed. Return it with `pipemill_error_free`.
pub struct Error {
    kind: ErrorKind,
    message: CString,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: &str) -> Error {
        Error { kind, message: text::for_c(message) }
    }

    pub(crate) fn argument(message: impl AsRef<str>) -> Error {
        Error::new(ErrorKind::Argument, message.as_ref())
    }

    pub(crate) fn internal(panic: &str) -> Error {
        let message = format!("a mistake in pipemill's C library, please report it: {panic}");
        Error::new(ErrorKind::Internal, &message)
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message.to_string_lossy())
    }
}

impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}: {self}", self.kind)
    }
}

impl From<ReaderError> for Error {
    fn from(error: ReaderError) -> Error {
        let kind = match &error {
            ReaderError::Connect { .. } | ReaderError::OtherUser(_) => ErrorKind::Connect,
            ReaderError::Refused(_) => ErrorKind::Refused,
            ReaderError::HostDied { .. } => ErrorKind::HostDied,
            ReaderError::Protocol { .. } | ReaderError::Memory(_) | ReaderError::Socket(_) => {
                ErrorKind::Protocol
            }
            ReaderError::Gap { .. } | ReaderError::AnyOrder { .. } => ErrorKind::State,
            ReaderError::Forked { .. } => ErrorKind::Fork,
            ReaderError::Failed(report) => match report.kind {
                Failure::Decode => ErrorKind::Decode,
                Failure::Refused => ErrorKind::DecoderRefused,
                Failure::Plugin => ErrorKind::Plugin,
                Failure::Source => ErrorKind::Source,
                Failure::Limit | Failure::TooLarge => ErrorKind::Limit,
                Failure::Host => ErrorKind::Host,
            },
        };
        Error::new(kind, &error.to_string())
    }
}

/// The result of `work`. If it fails, returns `otherwise`, and the slot has the error; otherwise
/// the slot is null. The slot is the address of C's error pointer, which may hold anything, or
/// null.
pub(crate) fn reported<T>(
    slot: Option<&mut MaybeUninit<*mut Error>>,
    otherwise: T,
    work: impl FnOnce() -> Result<T, Error>,
) -> T {
    let (value, error) = match guarded(|panic| Err(Error::internal(panic)), work) {
        Ok(value) => (value, std::ptr::null_mut()),
        Err(error) if slot.is_some() => (otherwise, Box::into_raw(Box::new(error))),
        Err(_) => (otherwise, std::ptr::null_mut()),
    };
    if let Some(slot) = slot {
        slot.write(error);
    }
    value
}

/// The whole text of an error, for a person, in UTF-8: where it happened, what was expected, what
/// was found and what to do. It lives as long as the error. "no error" if `error` is null.
#[unsafe(no_mangle)]
pub extern "C" fn pipemill_error_message(error: Option<&Error>) -> *const c_char {
    const NONE: &CStr = c"no error";
    error.map_or(NONE, |error| &error.message).as_ptr()
}

/// The kind of an error.
#[unsafe(no_mangle)]
pub extern "C" fn pipemill_error_kind_of(error: Option<&Error>) -> ErrorKind {
    error.map_or(ErrorKind::None, |error| error.kind)
}

/// Frees an error. Null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn pipemill_error_free(error: Option<Box<Error>>) {
    drop(error);
}
