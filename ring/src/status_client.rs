//! Asks a host for its status, as `pipemill top` does. It is no consumer: it is granted nothing.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use crate::memory::{MemoryError, ReadMemory};
use crate::protocol::{self, ToConsumer};
use crate::socket::{Received, buffer, connect_to, receive_with_fd, send};

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
    /// The host refused, for this reason.
    #[error("the host refused: {0}")]
    Refused(String),
    /// The host has ended, or it has hung up for another reason.
    #[error("the host has hung up")]
    HungUp,
    /// The host broke the protocol, in this way.
    #[error("the host broke the protocol: {0}")]
    Protocol(String),
    /// The memory with the status can't be read.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The kernel refused to receive.
    #[error("the host's socket: {0}")]
    Socket(#[from] io::Error),
}

/// A connection to a host, for its status.
#[derive(Debug)]
pub struct StatusClient {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl StatusClient {
    /// Connects to the host that serves the socket at `path`.
    ///
    /// # Errors
    /// [`StatusClientError::Connect`] where no host serves it, or this process may not connect.
    pub fn connect(path: &Path) -> Result<StatusClient, StatusClientError> {
        let failed = |errno| StatusClientError::Connect {
            path: path.into(),
            error: io::Error::from_raw_os_error(errno as i32),
        };
        Ok(StatusClient { socket: connect_to(path).map_err(failed)?, buffer: buffer() })
    }

    /// The host's status as JSON text. docs/operate.md describes its keys. May be called again and
    /// again.
    ///
    /// # Errors
    /// [`StatusClientError`] names each: the host has hung up, refuses, or breaks the protocol, or
    /// its memory can't be mapped.
    pub fn status(&mut self) -> Result<Vec<u8>, StatusClientError> {
        // An error here means that the host has hung up. The receive below reports that, after the
        // message that the host sent last.
        let _ = send(&self.socket, &protocol::get_status(), None, true);
        let received = receive_with_fd(&self.socket, &mut self.buffer).map_err(io::Error::from)?;
        let (bytes, memory) = match received {
            Received::Message(bytes, memory) => (bytes, memory),
            Received::HungUp => return Err(StatusClientError::HungUp),
            Received::Invalid(what) => return Err(StatusClientError::Protocol(what.into())),
            Received::WouldBlock => {
                return Err(StatusClientError::Protocol("a socket that waits did not wait".into()));
            }
        };
        let broke = StatusClientError::Protocol;
        match ToConsumer::decode(&self.buffer[..bytes]).map_err(|error| broke(error.to_string()))? {
            ToConsumer::Status(bytes) => {
                let memory = memory.ok_or_else(|| broke("STATUS without its memory".into()))?;
                Ok(ReadMemory::map(memory, bytes)?.bytes().to_vec())
            }
            ToConsumer::Refused(why) => Err(StatusClientError::Refused(why)),
            _ => Err(broke("expected STATUS, found another message".into())),
        }
    }
}
