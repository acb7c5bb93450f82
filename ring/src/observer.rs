//! Asks a host how it stands, as `pipemill top` does. Not a consumer: it is granted nothing.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use crate::memory::{MemoryError, ReadMemory};
use crate::protocol::{self, ToConsumer};
use crate::socket::{Received, buffer, connect_to, receive_with_fd, send};

/// Why a host can't be asked.
#[derive(Debug, thiserror::Error)]
pub enum ObserverError {
    /// Nobody answers there.
    #[error("{}: no pipemill host answers: {error}", path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// The kernel's answer.
        error: io::Error,
    },
    /// It won't tell.
    #[error("the host refused: {0}")]
    Refused(String),
    /// It has ended.
    #[error("the host has gone")]
    Gone,
    /// It did not keep to the protocol.
    #[error("the host broke the protocol: {0}")]
    Protocol(String),
    /// What it told can't be read.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The kernel refused.
    #[error("the host's socket: {0}")]
    Socket(#[from] io::Error),
}

/// A connection to a host.
#[derive(Debug)]
pub struct Observer {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl Observer {
    /// Connects to the host that serves this socket.
    ///
    /// # Errors
    /// Nobody serves it, or this process may not connect.
    pub fn connect(path: &Path) -> Result<Observer, ObserverError> {
        let failed = |errno| ObserverError::Connect {
            path: path.into(),
            error: io::Error::from_raw_os_error(errno as i32),
        };
        Ok(Observer { socket: connect_to(path).map_err(failed)?, buffer: buffer() })
    }

    /// How the host stands, as JSON; docs/operate.md says what is in it.
    ///
    /// # Errors
    /// The host has gone, or refuses.
    pub fn status(&mut self) -> Result<Vec<u8>, ObserverError> {
        // That it has gone shows in what is received, behind what it sent last.
        let _ = send(&self.socket, &protocol::ask_status(), None, true);
        let received = receive_with_fd(&self.socket, &mut self.buffer).map_err(io::Error::from)?;
        let (bytes, memory) = match received {
            Received::Message(bytes, memory) => (bytes, memory),
            Received::HungUp => return Err(ObserverError::Gone),
            Received::Broken(what) => return Err(ObserverError::Protocol(what.into())),
            Received::Nothing => {
                return Err(ObserverError::Protocol("a socket that waits did not".into()));
            }
        };
        let broke = |what: String| ObserverError::Protocol(what);
        match ToConsumer::decode(&self.buffer[..bytes]).map_err(|error| broke(error.to_string()))? {
            ToConsumer::Status(bytes) => {
                let memory = memory.ok_or_else(|| broke("STATUS without its memory".into()))?;
                Ok(ReadMemory::map(memory, bytes)?.bytes().to_vec())
            }
            ToConsumer::Refused(why) => Err(ObserverError::Refused(why)),
            _ => Err(broke("expected STATUS, found another message".into())),
        }
    }
}
