//! The server of a process's rings: it binds the socket, and its thread communicates with the
//! consumers.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::socket::SockType;

use super::config::ServerConfig;
use super::ring::Ring;
use super::server_loop::{ServerLoop, StatusText};
use crate::endpoint::{Endpoint, EndpointError};

/// The reason why a server can't start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The socket's path can't be served.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// Two rings have the same channel name, so that consumers can't select one.
    #[error("two channels have the name {0:?}")]
    SameName(String),
    /// The kernel refused a descriptor or the thread.
    #[error("starting the ring's server: {0}")]
    System(#[from] std::io::Error),
}

impl From<Errno> for ServerError {
    fn from(errno: Errno) -> ServerError {
        ServerError::System(errno.into())
    }
}

/// Serves the rings of a process on one socket, in its own thread. When it is dropped, it hangs up
/// on all consumers, which can still receive earlier messages, and removes the socket.
#[derive(Debug)]
pub struct Server {
    stop: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts the server. Consumers may connect when this returns.
    ///
    /// The folder of `socket` is created if it is missing. Only this user may write to it, unless
    /// `config.allow_other_users`. `status` makes the answers to GET_STATUS; without it they are
    /// refused.
    ///
    /// # Errors
    /// [`ServerError::SameName`] if two rings have the same channel name, [`ServerError::Endpoint`]
    /// if the path can't be served, [`ServerError::System`] if the kernel refuses.
    pub fn start(
        socket: &Path,
        config: &ServerConfig,
        rings: Vec<Arc<Ring>>,
        status: Option<StatusText>,
    ) -> Result<Server, ServerError> {
        let mut channels = HashMap::new();
        for ring in rings {
            let name = ring.config().channel.clone();
            if channels.insert(name.clone(), ring).is_some() {
                return Err(ServerError::SameName(name));
            }
        }
        let endpoint = Endpoint::bind(socket, SockType::SeqPacket, config.allow_other_users)?;
        let stop = Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?);
        let server = ServerLoop::new(endpoint, config, channels, status, &stop)?;
        let thread = std::thread::Builder::new().name("ring-server".into());
        let thread = Some(thread.spawn(move || server.run())?);
        Ok(Server { stop, thread })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // This can't fail: the counter is far from full.
        let _ = self.stop.write(1);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the ring's server thread had panicked");
        }
    }
}
