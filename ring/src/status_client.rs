//! Asks a host for its status, as `pipemill top` does. It is no consumer: it is granted nothing.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

use crate::protocol::{self, StatusPart, ToConsumer};
use crate::socket::{Received, buffer, connect_to, peer_of, receive, send};

/// Bytes. A status has less than 1 KiB for each channel and consumer; a longer one is not the
/// host's.
const MAX_STATUS: u64 = 64 << 20;

/// Why a host's status can't be had.
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
    #[error(
        "{}: expected a socket that user {expected} serves, found one of user {found} (process \
         {pid}), which may show anything; if you trust it, name its path with --socket",
        path.display()
    )]
    OtherUser {
        /// The socket.
        path: PathBuf,
        /// This process's user id.
        expected: u32,
        /// The user id of the process that serves the path.
        found: u32,
        /// Its process id; 0 where it is in a namespace that this process can't see.
        pid: i32,
    },
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

/// A connection to a host, for its status.
#[derive(Debug)]
pub struct StatusClient {
    path: PathBuf,
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl StatusClient {
    /// Connects to the host that serves the socket at `path`, whose user may be any: it is for a
    /// path that a person has named.
    ///
    /// # Errors
    /// [`StatusClientError::Connect`] where no host serves it, or this process may not connect.
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
    /// have made it first.
    ///
    /// # Errors
    /// Those of [`connect`](StatusClient::connect), and [`StatusClientError::OtherUser`].
    pub fn connect_to_own(path: &Path) -> Result<StatusClient, StatusClientError> {
        let client = StatusClient::connect(path)?;
        let peer = peer_of(&client.socket).map_err(io::Error::from)?;
        let (expected, found, pid) = (geteuid().as_raw(), peer.uid, peer.pid);
        match found == expected {
            true => Ok(client),
            false => Err(StatusClientError::OtherUser { path: path.into(), expected, found, pid }),
        }
    }

    /// The host's status as JSON text. docs/operate.md describes its keys. May be called again and
    /// again.
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
