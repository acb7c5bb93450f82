//! Asks a host for its status, as `pipemill top` does. It is not a consumer: nothing is granted to
//! it.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::time::{TimeVal, TimeValLike};

use crate::endpoint::EndpointError;
use crate::protocol::{self, StatusPart, ToConsumer};
use crate::socket::{Received, buffer, connect_to, receive, send};
use crate::trust::{self, OtherUser};

/// In bytes. A status has less than 1 KiB for each channel and consumer; a longer one is not from a
/// host.
const MAX_STATUS: u64 = 64 << 20;

/// The reason why a host's status is not available.
#[derive(Debug, thiserror::Error)]
pub enum StatusClientError {
    /// No host answers at the path.
    #[error("{}: no pipemill host answers: {error}", path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// The kernel's error.
        error: io::Error,
    },
    /// Another user serves the path.
    #[error("{0}, which may show anything; if you trust that user, name the path with --socket")]
    OtherUser(OtherUser),
    /// Another user could have put the socket into the folder of the path.
    #[error(transparent)]
    Folder(#[from] EndpointError),
    /// The host refused, for this reason.
    #[error("the host refused: {0}")]
    Refused(String),
    /// The host has ended, or it has hung up for another reason.
    #[error("the host has hung up")]
    HungUp,
    /// The host broke the protocol, in this way.
    #[error("the host broke the protocol: {0}")]
    Protocol(String),
    /// The kernel refused to receive.
    #[error("the host's socket: {0}")]
    Socket(#[from] io::Error),
}

/// A connection to a host for its status.
#[derive(Debug)]
pub struct StatusClient {
    path: PathBuf,
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl StatusClient {
    /// Connects to the host that serves the socket at `path`, which may belong to any user: this is
    /// for a path that a person has named.
    ///
    /// # Errors
    /// [`StatusClientError::Connect`] if no host serves it, or this process may not connect.
    pub fn connect(path: &Path) -> Result<StatusClient, StatusClientError> {
        let failed = |errno| StatusClientError::Connect {
            path: path.into(),
            error: io::Error::from_raw_os_error(errno as i32),
        };
        let socket = connect_to(path).map_err(failed)?;
        Ok(StatusClient { path: path.into(), socket, buffer: buffer() })
    }

    /// The path of the host's socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Like [`connect`](StatusClient::connect), for a path that anybody can guess: another user may
    /// have made it first. The host must belong to this user or to root.
    ///
    /// # Errors
    /// The errors of [`connect`](StatusClient::connect), and [`StatusClientError::OtherUser`].
    pub fn connect_to_own(path: &Path) -> Result<StatusClient, StatusClientError> {
        let failed = |error| StatusClientError::Connect { path: path.into(), error };
        trust::check_owner(path).map_err(failed)?.map_err(StatusClientError::OtherUser)?;
        let client = StatusClient::connect(path)?;
        trust::check_peer(path, &client.socket)?.map_err(StatusClientError::OtherUser)?;
        Ok(client)
    }

    /// An answer that takes longer is an error.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        let timeout = TimeVal::microseconds(timeout.as_micros() as i64);
        Ok(setsockopt(&self.socket, ReceiveTimeout, &timeout)?)
    }

    /// The host's status as JSON text. docs/operate.md describes its keys. It may be called
    /// repeatedly.
    ///
    /// # Errors
    /// [`StatusClientError`] names each: the host has hung up, refuses, or breaks the protocol.
    pub fn status(&mut self) -> Result<Vec<u8>, StatusClientError> {
        // An error here means that the host has hung up. The receive below reports that, after the
        // message that the host sent last.
        let _ = send(&self.socket, &protocol::get_status(), None, true);
        let mut status = Vec::new();
        let mut total = None;
        loop {
            let StatusPart { left, text } = self.part()?;
            let total = *total.get_or_insert(left);
            if total > MAX_STATUS || left != total - status.len() as u64 {
                return Err(StatusClientError::Protocol(format!(
                    "a part of the status says {left} bytes are left, after {} of {total}",
                    status.len()
                )));
            }
            status.extend(text);
            if status.len() as u64 == total {
                return Ok(status);
            }
        }
    }

    fn part(&mut self) -> Result<StatusPart, StatusClientError> {
        let bytes = match receive(&self.socket, &mut self.buffer).map_err(io::Error::from)? {
            Received::Message(bytes, _) => bytes,
            Received::HungUp => return Err(StatusClientError::HungUp),
            Received::Invalid(what) => return Err(StatusClientError::Protocol(what.into())),
            Received::WouldBlock => {
                return Err(StatusClientError::Protocol("a socket that waits did not wait".into()));
            }
        };
        let broke = StatusClientError::Protocol;
        match ToConsumer::decode(&self.buffer[..bytes]).map_err(|error| broke(error.to_string()))? {
            ToConsumer::Status(part) => Ok(part),
            ToConsumer::Refused(why) => Err(StatusClientError::Refused(why)),
            _ => Err(broke("expected STATUS, found another message".into())),
        }
    }
}
