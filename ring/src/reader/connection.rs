//! A consumer's end of the socket. The reader and its batches share it, in any threads.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{Shutdown, shutdown};

use super::error::ReaderError;
use crate::protocol::{self, ToConsumer};
use crate::socket::{Received, connect_to, receive_with_fd, send};
use crate::trust;

/// The host's address, and which users it may belong to.
#[derive(Debug)]
pub(super) struct Address {
    pub(super) path: PathBuf,
    pub(super) allow_other_users: bool,
}

#[derive(Debug)]
pub(super) struct Connection {
    socket: OwnedFd,
    address: Address,
    channel: String,
    /// Id of the process that connected.
    process: u32,
    /// Grants whose batches a panic has dropped. They are neither ACKed nor RELEASEd yet.
    abandoned: Mutex<Vec<u64>>,
}

impl Connection {
    /// Connects to the host at `path`, without sending anything yet. With `allow_other_users` the
    /// host may belong to any user.
    pub(super) fn open(
        path: &Path,
        channel: &str,
        allow_other_users: bool,
    ) -> Result<Connection, ReaderError> {
        let failed = |error| ReaderError::Connect { path: path.into(), error };
        if !allow_other_users {
            trust::check_owner(path).map_err(failed)?.map_err(ReaderError::OtherUser)?;
        }
        let socket = connect_to(path).map_err(|errno| failed(errno.into()))?;
        if !allow_other_users {
            trust::check_peer(path, &socket).map_err(failed)?.map_err(ReaderError::OtherUser)?;
        }
        let (channel, process) = (channel.into(), std::process::id());
        let address = Address { path: path.into(), allow_other_users };
        Ok(Connection { socket, address, channel, process, abandoned: Mutex::default() })
    }

    /// The path of the host's socket.
    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// Sends a message. It is not an error here that the host has hung up: its last messages can
    /// still be received, and the receive after these reports the hang-up. In a forked child this
    /// sends nothing, because the connection belongs to the parent.
    pub(super) fn send(&self, message: &[u8]) {
        if self.check_process().is_err() {
            return;
        }
        match send(&self.socket, message, None, true) {
            Ok(()) | Err(Errno::EPIPE | Errno::ECONNRESET) => {}
            Err(_) => {
                // A lost ACK would stop the channel without a message. A hang-up is reported.
                let _ = shutdown(self.socket.as_raw_fd(), Shutdown::Both);
            }
        }
    }

    /// Waits for the next message, and the descriptor that is attached to it.
    pub(super) fn receive(
        &self,
        buffer: &mut [u8],
    ) -> Result<(ToConsumer, Option<OwnedFd>), ReaderError> {
        match receive_with_fd(&self.socket, buffer).map_err(std::io::Error::from)? {
            Received::Message(bytes, fd) => {
                let message = ToConsumer::decode(&buffer[..bytes]);
                Ok((message.map_err(|error| self.broke(error.to_string()))?, fd))
            }
            Received::HungUp => Err(ReaderError::HostDied { channel: self.channel.clone() }),
            Received::Invalid(what) => Err(self.broke(what.into())),
            Received::WouldBlock => Err(self.broke("a socket that waits did not wait".into())),
        }
    }

    /// Waits until there is something to receive, including a hang-up, at most until `end`. Returns
    /// whether there is.
    pub(super) fn wait(&self, end: Instant) -> Result<bool, ReaderError> {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            // The time is rounded up, so that the last wait is not zero.
            let left = PollTimeout::try_from(left.as_millis().saturating_add(1));
            let mut polled = [PollFd::new(self.as_fd(), PollFlags::POLLIN)];
            match poll(&mut polled, left.unwrap_or(PollTimeout::MAX)) {
                Ok(0) if Instant::now() < end => continue,
                Ok(ready) => return Ok(ready > 0),
                Err(Errno::EINTR) => continue,
                Err(errno) => return Err(std::io::Error::from(errno).into()),
            }
        }
    }

    /// Returns an error in a forked child.
    pub(super) fn check_process(&self) -> Result<(), ReaderError> {
        match std::process::id() == self.process {
            true => Ok(()),
            false => Err(ReaderError::Forked { channel: self.channel.clone() }),
        }
    }

    /// The error for a host that broke the protocol.
    pub(super) fn broke(&self, what: String) -> ReaderError {
        ReaderError::Protocol { channel: self.channel.clone(), what }
    }

    /// Records that a panic has dropped the batch of this grant.
    pub(super) fn abandon(&self, grant: u64) {
        self.abandoned.lock().unwrap_or_else(PoisonError::into_inner).push(grant);
    }

    /// ACKs and RELEASEs the abandoned grants: the program continues after the panic.
    pub(super) fn release_abandoned(&self) {
        let mut abandoned = self.abandoned.lock().unwrap_or_else(PoisonError::into_inner);
        for grant in abandoned.drain(..) {
            self.send(&protocol::release(grant));
        }
    }
}

/// The host notices the hang-up at once. A process that another thread is starting has a copy of
/// the descriptor until it executes its own program, and `close` alone would wait for that.
impl Drop for Connection {
    fn drop(&mut self) {
        if self.check_process().is_ok() {
            // An error means that it is shut down already.
            let _ = shutdown(self.socket.as_raw_fd(), Shutdown::Both);
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
