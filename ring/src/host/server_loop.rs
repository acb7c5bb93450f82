//! The thread that speaks with the consumers of all rings: it accepts and welcomes them, obeys
//! their messages, and notices when they hang up. A message can at worst end the connection that
//! it came from.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::EventFd;
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::unistd::geteuid;

use super::consumer_socket::Peer;
use super::ring::Ring;
use super::table::ConsumerId;
use crate::endpoint::Endpoint;
use crate::memory::DedicatedBuffer;
use crate::protocol::{self, Hello, PROTOCOL, ToHost};
use crate::socket::{Received, accept, buffer, hang_up, receive, send};

/// The poller's tokens. Each consumer's token is its id.
const LISTENER: u64 = 0;
const STOP: u64 = 1;
const FIRST_CONSUMER: ConsumerId = 2;

/// Messages that are received from one consumer before the others have their turn.
const MAX_MESSAGES_PER_TURN: usize = 64;
/// How often the loop looks for stuck consumers, and tries again to accept after a failure.
const HOUSEKEEPING_INTERVAL: Duration = Duration::from_secs(1);

/// Makes the host's status, as JSON. The server's thread calls it, and holds no lock meanwhile.
pub type StatusText = Box<dyn Fn() -> Vec<u8> + Send>;

struct Connection {
    socket: Arc<OwnedFd>,
    peer: Peer,
    /// The ring that it reads, after HELLO.
    ring: Option<Arc<Ring>>,
}

/// All that the server's thread owns.
pub(super) struct ServerLoop {
    endpoint: Endpoint,
    allow_other_users: bool,
    channels: HashMap<String, Arc<Ring>>,
    status: Option<StatusText>,
    poller: Arc<Epoll>,
    connections: HashMap<ConsumerId, Connection>,
    next_id: ConsumerId,
    /// False for up to a second after accepting failed. Else the loop would try again at once, for
    /// ever.
    listening: bool,
    buffer: Vec<u8>,
}

/// What to do with a connection after a message.
enum NextAction {
    Continue,
    HangUp,
    /// Send REFUSED with this reason, then hang up.
    Refuse(String),
}

impl ServerLoop {
    /// `stop`: the loop ends when it is written.
    pub(super) fn new(
        endpoint: Endpoint,
        allow_other_users: bool,
        channels: HashMap<String, Arc<Ring>>,
        status: Option<StatusText>,
        stop: &EventFd,
    ) -> nix::Result<ServerLoop> {
        let poller = Arc::new(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?);
        poller.add(&endpoint, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER))?;
        poller.add(stop, EpollEvent::new(EpollFlags::EPOLLIN, STOP))?;
        Ok(ServerLoop {
            endpoint,
            allow_other_users,
            channels,
            status,
            poller,
            connections: HashMap::new(),
            next_id: FIRST_CONSUMER,
            listening: true,
            buffer: buffer(),
        })
    }

    pub(super) fn run(mut self) {
        let mut events = [EpollEvent::empty(); 64];
        let mut housekeeping = Instant::now() + HOUSEKEEPING_INTERVAL;
        'serving: loop {
            let left = housekeeping.saturating_duration_since(Instant::now());
            let timeout = EpollTimeout::from(left.as_millis() as u16 + 1);
            let ready = match self.poller.wait(&mut events, timeout) {
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
                    id => self.serve(id, event.events()),
                }
            }
            if Instant::now() >= housekeeping {
                self.do_housekeeping();
                housekeeping = Instant::now() + HOUSEKEEPING_INTERVAL;
            }
        }
        let ids: Vec<ConsumerId> = self.connections.keys().copied().collect();
        for id in ids {
            self.close(id, None);
        }
    }

    fn do_housekeeping(&mut self) {
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
            // It hung up before it was accepted.
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
        let id = self.next_id;
        self.next_id += 1;
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

    /// Receives and obeys the messages of a consumer. Those that it sent before it hung up count.
    fn serve(&mut self, id: ConsumerId, events: EpollFlags) {
        if events.contains(EpollFlags::EPOLLOUT)
            && let Some(Connection { ring: Some(ring), .. }) = self.connections.get(&id)
        {
            ring.flush(id);
        }
        for _ in 0..MAX_MESSAGES_PER_TURN {
            let Some(connection) = self.connections.get(&id) else { return };
            let next = match receive(&connection.socket, &mut self.buffer) {
                Ok(Received::WouldBlock) => return,
                Ok(Received::Message(bytes, _)) => self.message(id, bytes),
                Ok(Received::HungUp) => NextAction::HangUp,
                Ok(Received::Invalid(what)) => NextAction::Refuse(what.into()),
                Err(errno) => NextAction::Refuse(format!("receiving failed: {errno}")),
            };
            match next {
                NextAction::Continue => {}
                NextAction::HangUp => return self.close(id, None),
                NextAction::Refuse(reason) => return self.close(id, Some(&reason)),
            }
        }
    }

    fn message(&mut self, id: ConsumerId, bytes: usize) -> NextAction {
        let Some(connection) = self.connections.get_mut(&id) else { return NextAction::Continue };
        let message = match ToHost::decode(&self.buffer[..bytes]) {
            Ok(message) => message,
            Err(error) => return NextAction::Refuse(error.to_string()),
        };
        if let Some(ring) = &connection.ring {
            return match ring.obey(id, &message) {
                Ok(()) => NextAction::Continue,
                Err(reason) => NextAction::Refuse(reason),
            };
        }
        let hello = match message {
            ToHost::Hello(hello) => hello,
            ToHost::GetStatus => return self.send_status(id),
            _ => return NextAction::Refuse("the first message must be HELLO".into()),
        };
        let ring = match choose_ring(&self.channels, &hello) {
            Ok(ring) => ring.clone(),
            Err(reason) => return NextAction::Refuse(reason),
        };
        let (socket, poller) = (connection.socket.clone(), self.poller.clone());
        if ring.connect(id, connection.peer.clone(), &hello, socket, poller).is_err() {
            return NextAction::HangUp;
        }
        log::debug!(
            "channel {:?}: process {} ({:?}) is connected",
            hello.channel,
            connection.peer.pid,
            hello.client
        );
        connection.ring = Some(ring);
        NextAction::Continue
    }

    /// Answers GET_STATUS. Where the socket is full it hangs up: the client can connect again.
    fn send_status(&self, id: ConsumerId) -> NextAction {
        let (Some(status), Some(connection)) = (&self.status, self.connections.get(&id)) else {
            return NextAction::Refuse("this host does not serve its status".into());
        };
        let text = status();
        let sealed =
            DedicatedBuffer::create("pipemill-status", text.len()).and_then(|mut memory| {
                memory.bytes()[..text.len()].copy_from_slice(&text);
                memory.seal(text.len())
            });
        let memory = match sealed {
            Ok(memory) => memory,
            Err(error) => return NextAction::Refuse(format!("no memory for the status: {error}")),
        };
        let message = protocol::status(text.len() as u64);
        match send(&connection.socket, &message, Some(memory.as_fd()), false) {
            Ok(()) => NextAction::Continue,
            Err(_) => NextAction::HangUp,
        }
    }

    /// Hangs up on a consumer and takes back what it held. Where there is a reason, it is sent as
    /// REFUSED before.
    fn close(&mut self, id: ConsumerId, refused: Option<&str>) {
        let Some(Connection { socket, peer, ring }) = self.connections.remove(&id) else { return };
        if let Some(ring) = &ring {
            // Drops the ring's `ConsumerSocket`, so that this is the last owner of the socket.
            ring.disconnect(id);
            log::debug!("channel {:?}: process {} is gone", ring.config().channel, peer.pid);
        }
        if let Some(reason) = refused {
            log::warn!("process {} (user {}): hanging up: {reason}", peer.pid, peer.uid);
            // Where this can't be sent, the consumer sees the hang-up alone.
            let _ = send(&socket, &protocol::refused(reason), None, false);
        }
        // Fails only where it was never added.
        let _ = self.poller.delete(socket.as_fd());
        hang_up(&socket, &mut self.buffer);
    }
}

/// The ring that HELLO asks for, or the reason to refuse.
fn choose_ring<'c>(
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
