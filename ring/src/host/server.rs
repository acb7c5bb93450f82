//! The thread that speaks with the consumers of all channels: accepts, welcomes, obeys, and sees
//! them go. Nothing that a peer sends can do more than end that peer's connection.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{SockType, getsockopt};
use nix::unistd::geteuid;

use super::consumers::Peer;
use super::ring::Ring;
use super::table::ConsumerId;
use crate::endpoint::{Endpoint, EndpointError};
use crate::memory::ExtentMemory;
use crate::protocol::{self, Hello, PROTOCOL, ToHost};
use crate::socket::{Received, accept, buffer, hang_up, receive, send};

const LISTENER: u64 = 0;
const STOP: u64 = 1;
const FIRST_CONSUMER: ConsumerId = 2;

/// Messages taken from one consumer before the others have their turn.
const TURN: usize = 64;
/// How often stuck consumers are looked for.
const TICK: Duration = Duration::from_secs(1);

/// How the host stands, as JSON. Called by the server's thread, which meanwhile holds no lock.
pub type StatusText = Box<dyn Fn() -> Vec<u8> + Send>;

/// Why a server can't start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Nothing to do with the channels.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// Consumers ask for a channel by its name.
    #[error("two channels have the name {0:?}")]
    SameName(String),
    /// The kernel refused.
    #[error("starting the ring's server: {0}")]
    System(#[from] std::io::Error),
}

impl From<Errno> for ServerError {
    fn from(errno: Errno) -> ServerError {
        ServerError::System(errno.into())
    }
}

/// Serves the rings of a process on one socket, in a thread of its own. When it is dropped all
/// consumers are hung up on, after what was sent to them, and the socket is removed.
#[derive(Debug)]
pub struct Server {
    stop: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts at once; consumers may connect when this returns. The folder of `socket` is made if
    /// missing, and must be this user's alone unless `allow_other_users`. Who asks how the host
    /// stands is told what `status` says.
    pub fn start(
        socket: &Path,
        allow_other_users: bool,
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
        let endpoint = Endpoint::bind(socket, SockType::SeqPacket, allow_other_users)?;
        let poller = Arc::new(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?);
        let stop = Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?);
        poller.add(&endpoint, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER))?;
        poller.add(&*stop, EpollEvent::new(EpollFlags::EPOLLIN, STOP))?;
        let desk = Desk {
            endpoint,
            allow_other_users,
            channels,
            status,
            poller,
            connections: HashMap::new(),
            next: FIRST_CONSUMER,
            listening: true,
            buffer: buffer(),
        };
        let thread = std::thread::Builder::new().name("ring-server".into());
        let thread = Some(thread.spawn(move || desk.serve())?);
        Ok(Server { stop, thread })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Can't fail: the counter is far from full.
        let _ = self.stop.write(1);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the ring's server thread had panicked");
        }
    }
}

struct Connection {
    socket: Arc<OwnedFd>,
    peer: Peer,
    /// The channel that it reads, after HELLO.
    ring: Option<Arc<Ring>>,
}

/// What the server's thread owns.
struct Desk {
    endpoint: Endpoint,
    allow_other_users: bool,
    channels: HashMap<String, Arc<Ring>>,
    status: Option<StatusText>,
    poller: Arc<Epoll>,
    connections: HashMap<ConsumerId, Connection>,
    next: ConsumerId,
    /// False for a moment after accepting failed, so as not to try in a circle.
    listening: bool,
    buffer: Vec<u8>,
}

/// What follows from a message.
enum Then {
    GoOn,
    HangUp,
    Refuse(String),
}

impl Desk {
    fn serve(mut self) {
        let mut events = [EpollEvent::empty(); 64];
        let mut tick = Instant::now() + TICK;
        'serving: loop {
            let left = tick.saturating_duration_since(Instant::now()).as_millis() as u16 + 1;
            let ready = match self.poller.wait(&mut events, EpollTimeout::from(left)) {
                Ok(ready) => ready,
                Err(Errno::EINTR) => continue,
                Err(errno) => {
                    log::error!("the ring's server ends: epoll_wait failed: {errno}");
                    break;
                }
            };
            for event in &events[..ready] {
                match event.data() {
                    STOP => break 'serving,
                    LISTENER => self.accept(),
                    id => self.attend(id, event.events()),
                }
            }
            if Instant::now() >= tick {
                self.tick();
                tick = Instant::now() + TICK;
            }
        }
        let ids: Vec<ConsumerId> = self.connections.keys().copied().collect();
        for id in ids {
            self.close(id, None);
        }
    }

    fn tick(&mut self) {
        for ring in self.channels.values() {
            for line in ring.stuck(Instant::now()) {
                log::warn!(channel = ring.config().channel.as_str(); "{line}");
            }
        }
        if !self.listening {
            self.listen(true);
        }
    }

    fn listen(&mut self, listening: bool) {
        self.listening = listening;
        let events = if listening { EpollFlags::EPOLLIN } else { EpollFlags::empty() };
        if let Err(errno) =
            self.poller.modify(&self.endpoint, &mut EpollEvent::new(events, LISTENER))
        {
            log::error!("the ring's server can't watch its socket: {errno}");
        }
    }

    fn accept(&mut self) {
        let socket = match accept(&self.endpoint) {
            Ok(socket) => socket,
            // Gone again before we came to it.
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ECONNABORTED) => return,
            Err(errno) => {
                log::warn!(
                    "{}: accepting a consumer failed, again in a second: {errno}",
                    self.endpoint.path().display()
                );
                return self.listen(false);
            }
        };
        let peer = match getsockopt(&socket, PeerCredentials) {
            Ok(peer) => Peer { pid: peer.pid(), uid: peer.uid() },
            Err(errno) => return log::warn!("a consumer's user is unknown, hanging up: {errno}"),
        };
        let (uid, euid) = (peer.uid, geteuid().as_raw());
        let id = self.next;
        self.next += 1;
        let watched = self.poller.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, id));
        self.connections.insert(id, Connection { socket: Arc::new(socket), peer, ring: None });
        if let Err(errno) = watched {
            self.close(id, Some(&format!("the host can't watch another connection: {errno}")));
        } else if uid != euid && !self.allow_other_users {
            self.close(
                id,
                Some(&format!(
                    "this host serves user {euid} only, and you are user {uid}; its configuration \
                     can allow other users"
                )),
            );
        }
    }

    /// Takes what a consumer sent. What it sent before it went away counts.
    fn attend(&mut self, id: ConsumerId, events: EpollFlags) {
        if events.contains(EpollFlags::EPOLLOUT)
            && let Some(Connection { ring: Some(ring), .. }) = self.connections.get(&id)
        {
            ring.flush(id);
        }
        for _ in 0..TURN {
            let Some(connection) = self.connections.get(&id) else { return };
            let then = match receive(&connection.socket, &mut self.buffer) {
                Ok(Received::Nothing) => return,
                Ok(Received::Message(bytes, _)) => self.message(id, bytes),
                Ok(Received::HungUp) => Then::HangUp,
                Ok(Received::Broken(what)) => Then::Refuse(what.into()),
                Err(errno) => Then::Refuse(format!("receiving failed: {errno}")),
            };
            match then {
                Then::GoOn => {}
                Then::HangUp => return self.close(id, None),
                Then::Refuse(reason) => return self.close(id, Some(&reason)),
            }
        }
    }

    fn message(&mut self, id: ConsumerId, bytes: usize) -> Then {
        let Some(connection) = self.connections.get_mut(&id) else { return Then::GoOn };
        let message = match ToHost::decode(&self.buffer[..bytes]) {
            Ok(message) => message,
            Err(error) => return Then::Refuse(error.to_string()),
        };
        if let Some(ring) = &connection.ring {
            return match ring.obey(id, &message) {
                Ok(()) => Then::GoOn,
                Err(reason) => Then::Refuse(reason),
            };
        }
        let hello = match message {
            ToHost::Hello(hello) => hello,
            ToHost::AskStatus => return self.tell_status(id),
            _ => return Then::Refuse("the first message must be HELLO".into()),
        };
        let ring = match choose(&self.channels, &hello) {
            Ok(ring) => ring.clone(),
            Err(reason) => return Then::Refuse(reason),
        };
        let (socket, poller) = (connection.socket.clone(), self.poller.clone());
        if ring.connect(id, connection.peer.clone(), &hello, socket, poller).is_err() {
            return Then::HangUp;
        }
        log::debug!(
            "channel {:?}: process {} ({:?}) is connected",
            hello.channel,
            connection.peer.pid,
            hello.client
        );
        connection.ring = Some(ring);
        Then::GoOn
    }

    /// It is not sent twice: whoever does not take it asks again.
    fn tell_status(&self, id: ConsumerId) -> Then {
        let (Some(status), Some(connection)) = (&self.status, self.connections.get(&id)) else {
            return Then::Refuse("this host does not tell how it stands".into());
        };
        let text = status();
        let sealed = ExtentMemory::create("pipemill-status", text.len()).and_then(|mut memory| {
            memory.bytes()[..text.len()].copy_from_slice(&text);
            memory.seal(text.len())
        });
        let memory = match sealed {
            Ok(memory) => memory,
            Err(error) => return Then::Refuse(format!("no memory to tell it: {error}")),
        };
        let message = protocol::status(text.len() as u64);
        match send(&connection.socket, &message, Some(memory.as_fd()), false) {
            Ok(()) => Then::GoOn,
            Err(_) => Then::HangUp,
        }
    }

    /// Hangs up, with a REFUSED before it where there is a reason, and gives back what was held.
    fn close(&mut self, id: ConsumerId, refused: Option<&str>) {
        let Some(Connection { socket, peer, ring }) = self.connections.remove(&id) else { return };
        if let Some(ring) = &ring {
            // Drops the link, so that this is the last owner of the socket.
            ring.disconnect(id);
            log::debug!("channel {:?}: process {} is gone", ring.config().channel, peer.pid);
        }
        if let Some(reason) = refused {
            log::warn!("process {} (user {}): hanging up: {reason}", peer.pid, peer.uid);
            // Where it can't be told, it sees the hang-up.
            let _ = send(&socket, &protocol::refused(reason), None, false);
        }
        // Fails only where it was never added.
        let _ = self.poller.delete(socket.as_fd());
        hang_up(&socket, &mut self.buffer);
    }
}

fn choose<'c>(
    channels: &'c HashMap<String, Arc<Ring>>,
    hello: &Hello,
) -> Result<&'c Arc<Ring>, String> {
    if hello.protocol != PROTOCOL {
        return Err(format!(
            "this host speaks protocol {PROTOCOL}, and you speak protocol {}; use a reader of the \
             same release",
            hello.protocol
        ));
    }
    if hello.credits == Some(0) {
        return Err("credits: expected 1 or more, found 0".into());
    }
    channels.get(&hello.channel).ok_or_else(|| {
        let mut known: Vec<_> = channels.keys().map(|name| format!("{name:?}")).collect();
        known.sort();
        format!("no channel {:?} here; there are: {}", hello.channel, known.join(", "))
    })
}
