//! The thread that communicates with the consumers of all rings: it accepts and welcomes them,
//! obeys their messages, and notices when they hang up. The worst effect of a message is the end of
//! its own connection.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use log::Level;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::EventFd;
use nix::sys::socket::{Shutdown, shutdown};
use nix::unistd::geteuid;

use super::config::{Remedies, ServerConfig};
use super::connections::{Connection, Connections, HELLO_TIMEOUT, Role};
use super::delivery::{Admitted, Denied};
use super::log_limit::LogLimit;
use super::ring::Ring;
use super::status_answer::StatusAnswer;
use super::table::ConsumerId;
use crate::endpoint::Endpoint;
use crate::protocol::{self, Hello, Mode, PROTOCOL, Pass, ToHost};
use crate::socket::{Received, accept, buffer, hang_up, peer_of, receive, send};

/// The poller's tokens. Each consumer's token is its id.
const LISTENER: u64 = 0;
const STOP: u64 = 1;
const FIRST_CONSUMER: ConsumerId = 2;

/// Number of messages that are received from one consumer before the other connections are served.
const MAX_MESSAGES_PER_TURN: usize = 64;
/// Number of times that each connection is served before the server hangs up on it: enough for all
/// messages that fit into a socket, with an end for a consumer that sends for ever.
const TURNS_AT_END: usize = 8;
/// Number of connections that are accepted before the other connections are served.
const MAX_ACCEPTS_PER_TURN: usize = 64;
/// Interval at which the loop checks for stuck consumers and silent connections, and retries
/// accepting after a failure.
const HOUSEKEEPING_INTERVAL: Duration = Duration::from_secs(1);

/// The reason for hanging up on a consumer of an older pass.
const PASS_IS_OVER: &str = "this pass over the data is over, because a newer one of the same \
                            program has begun; to read the data twice at once, make another \
                            Dataset";

/// The reason, followed by the host's advice, if there is one.
fn with_remedy(reason: String, remedy: &str) -> String {
    if remedy.is_empty() { reason } else { format!("{reason}; {remedy}") }
}

/// Makes the host's status, as JSON. The server's thread calls it without holding a lock.
pub type StatusText = Box<dyn Fn() -> Vec<u8> + Send>;

/// The state of the server's thread.
pub(super) struct ServerLoop {
    endpoint: Endpoint,
    allow_other_users: bool,
    remedies: Remedies,
    channels: HashMap<String, Arc<Ring>>,
    status: Option<StatusText>,
    poller: Arc<Epoll>,
    connections: Connections,
    next_id: ConsumerId,
    /// False for up to a second after accepting failed. Otherwise the loop would try again at once,
    /// for ever.
    listening: bool,
    log_limit: LogLimit,
    buffer: Vec<u8>,
}

/// The action on a connection after a message.
enum NextAction {
    Continue,
    HangUp,
    /// Send REFUSED with this reason, then hang up.
    Refuse(String),
}

impl ServerLoop {
    /// `stop` ends the loop when it is written.
    pub(super) fn new(
        endpoint: Endpoint,
        config: &ServerConfig,
        channels: HashMap<String, Arc<Ring>>,
        status: Option<StatusText>,
        stop: &EventFd,
    ) -> nix::Result<ServerLoop> {
        let poller = Arc::new(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?);
        poller.add(&endpoint, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER))?;
        poller.add(stop, EpollEvent::new(EpollFlags::EPOLLIN, STOP))?;
        Ok(ServerLoop {
            endpoint,
            allow_other_users: config.allow_other_users,
            remedies: config.remedies,
            channels,
            status,
            poller,
            connections: Connections::new(config.max_connections),
            next_id: FIRST_CONSUMER,
            listening: true,
            log_limit: LogLimit::new(),
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
            let now = Instant::now();
            if now >= housekeeping {
                self.do_housekeeping(now);
                housekeeping = now + HOUSEKEEPING_INTERVAL;
            }
        }
        self.end();
    }

    /// Hangs up on all consumers. Those that have connected by now are welcomed before, so that
    /// they learn how the stream has ended. ACKs that have arrived by now count. Nothing is granted
    /// after that: otherwise a consumer that is hung up on later would get the batches of an
    /// earlier one, which may have sent an ACK meanwhile.
    fn end(mut self) {
        self.endpoint.refuse_more();
        loop {
            match accept(&self.endpoint) {
                Ok(socket) => self.admit(socket),
                Err(Errno::EINTR | Errno::ECONNABORTED) => {}
                Err(_) => break,
            }
        }
        for id in self.connections.ids() {
            for _ in 0..TURNS_AT_END {
                self.serve(id, EpollFlags::EPOLLIN);
            }
        }
        self.channels.values().for_each(|ring| ring.close());
        for id in self.connections.ids() {
            self.close(id, None);
        }
    }

    fn do_housekeeping(&mut self, now: Instant) {
        for ring in self.channels.values() {
            for line in ring.stuck(now) {
                log::warn!(channel = ring.config().channel.as_str(); "{line}");
            }
        }
        for id in self.connections.overdue(now) {
            let seconds = HELLO_TIMEOUT.as_secs();
            self.close(id, Some(&format!("no HELLO within {seconds} s after the connection")));
        }
        self.log_limit.renew();
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
        for _ in 0..MAX_ACCEPTS_PER_TURN {
            match accept(&self.endpoint) {
                Ok(socket) => self.admit(socket),
                // No connection is left, or the client hung up before it was accepted.
                Err(Errno::EAGAIN | Errno::EINTR | Errno::ECONNABORTED) => return,
                Err(Errno::EMFILE | Errno::ENFILE) if self.make_room() => {}
                Err(errno) => {
                    log::warn!(
                        "{}: accepting a consumer failed, again in a second: {errno}",
                        self.endpoint.path().display()
                    );
                    return self.listen(false);
                }
            }
        }
    }

    fn admit(&mut self, socket: OwnedFd) {
        let peer = match peer_of(&socket) {
            Ok(peer) => peer,
            Err(errno) => return log::warn!("a consumer's user is unknown, hanging up: {errno}"),
        };
        let (uid, euid) = (peer.uid, geteuid().as_raw());
        let has_room = !self.connections.is_full() || self.make_room();
        let id = self.next_id;
        self.next_id += 1;
        let watched = self.poller.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, id));
        let (socket, role) = (Arc::new(socket), Role::Silent(Instant::now()));
        self.connections.insert(id, Connection { socket, peer, role });
        if uid != euid && !self.allow_other_users {
            let reason = format!("this host serves user {euid} only, and you are user {uid}");
            self.close(id, Some(&with_remedy(reason, self.remedies.other_user)));
        } else if !has_room {
            let limit = self.connections.limit();
            let reason = format!("this host has {limit} consumers, all that it takes");
            self.close(id, Some(&with_remedy(reason, self.remedies.no_room)));
        } else if let Err(errno) = watched {
            self.close(id, Some(&format!("the host can't watch another connection: {errno}")));
        } else {
            // HELLO has usually arrived already.
            self.serve(id, EpollFlags::EPOLLIN);
        }
    }

    /// Ends a connection without grants, so that another one can be accepted: the oldest that has
    /// sent nothing, otherwise the status client whose last request is the oldest. Returns false if
    /// all are consumers.
    fn make_room(&mut self) -> bool {
        while let Some(id) = self.connections.oldest_silent() {
            // It may have sent something by now.
            self.serve(id, EpollFlags::EPOLLIN);
            if self.connections.oldest_silent() == Some(id) {
                self.end_for_room(id);
            }
            if !self.connections.is_full() {
                return true;
            }
        }
        let idlest = self.connections.idlest_status_client();
        idlest.inspect(|id| self.end_for_room(*id)).is_some()
    }

    fn end_for_room(&mut self, id: ConsumerId) {
        let reason = "the host has too many connections, and this one was silent for longest";
        self.close(id, Some(reason));
    }

    /// Receives and handles the messages of a consumer. Messages that it sent before it hung up
    /// count.
    fn serve(&mut self, id: ConsumerId, events: EpollFlags) {
        if events.contains(EpollFlags::EPOLLOUT) {
            let next = self.send_waiting(id);
            if self.act(id, next) {
                return;
            }
        }
        for _ in 0..MAX_MESSAGES_PER_TURN {
            let Some(connection) = self.connections.get(id) else { return };
            let next = match receive(&connection.socket, &mut self.buffer) {
                Ok(Received::WouldBlock) => return,
                Ok(Received::Message(bytes, _)) => self.message(id, bytes),
                Ok(Received::HungUp) => NextAction::HangUp,
                Ok(Received::Invalid(what)) => NextAction::Refuse(what.into()),
                Err(errno) => NextAction::Refuse(format!("receiving failed: {errno}")),
            };
            if self.act(id, next) {
                return;
            }
        }
    }

    /// Whether the connection was ended.
    fn act(&mut self, id: ConsumerId, next: NextAction) -> bool {
        match next {
            NextAction::Continue => return false,
            NextAction::HangUp => {
                self.report_leaving(id);
                self.close(id, None);
            }
            NextAction::Refuse(reason) => self.close(id, Some(&reason)),
        }
        true
    }

    /// Sends the messages that wait for room in a socket.
    fn send_waiting(&mut self, id: ConsumerId) -> NextAction {
        match self.connections.get(id).map(|connection| &connection.role) {
            Some(Role::Consumer(ring, _)) => {
                ring.flush(id);
                NextAction::Continue
            }
            Some(Role::StatusClient(_)) => self.send_status(id),
            Some(Role::Silent(_) | Role::Departed(_)) | None => NextAction::Continue,
        }
    }

    fn message(&mut self, id: ConsumerId, bytes: usize) -> NextAction {
        let Some(connection) = self.connections.get_mut(id) else { return NextAction::Continue };
        let message = match ToHost::decode(&self.buffer[..bytes]) {
            Ok(message) => message,
            Err(error) => return NextAction::Refuse(error.to_string()),
        };
        let hello = match (&connection.role, message) {
            (Role::Consumer(ring, _), message) => {
                return match ring.obey(id, &message) {
                    Ok(()) => NextAction::Continue,
                    Err(reason) => NextAction::Refuse(reason),
                };
            }
            (Role::Departed(_), _) => return NextAction::Continue,
            (Role::Silent(_), ToHost::Hello(hello)) => hello,
            (_, ToHost::GetStatus) => return self.make_status(id),
            (Role::StatusClient(_), _) => {
                return NextAction::Refuse("a status client sends nothing but GET_STATUS".into());
            }
            _ => return NextAction::Refuse("the first message must be HELLO".into()),
        };
        let ring = match choose_ring(&self.channels, &hello) {
            Ok(ring) => ring.clone(),
            Err(reason) => return NextAction::Refuse(reason),
        };
        let admitted = match self.replace(&ring, &hello).and_then(|()| self.prepare(&ring, &hello))
        {
            Ok(admitted) => admitted,
            Err(reason) => return NextAction::Refuse(reason),
        };
        let Some(connection) = self.connections.get_mut(id) else { return NextAction::Continue };
        let (socket, poller) = (connection.socket.clone(), self.poller.clone());
        match ring.connect(id, connection.peer, &hello, admitted, socket, poller) {
            Ok(()) => {}
            Err(Errno::EPIPE | Errno::ECONNRESET) => return NextAction::HangUp,
            Err(errno) => {
                return NextAction::Refuse(format!("the channel's memory can't be sent: {errno}"));
            }
        }
        log::debug!(
            "channel {:?}: process {} ({:?}) is connected",
            hello.channel,
            connection.peer.pid,
            hello.client
        );
        connection.role = Role::Consumer(ring, hello.pass);
        NextAction::Continue
    }

    /// Hangs up on the consumers of older passes of the same program, as if it had left its epoch.
    /// The messages that they have sent count.
    fn replace(&mut self, ring: &Arc<Ring>, hello: &Hello) -> Result<(), String> {
        let Some(pass) = &hello.pass else { return Ok(()) };
        for (other, _) in self.connections.other_passes(ring, pass) {
            self.serve_out_of_turn(other);
        }
        let others = self.connections.other_passes(ring, pass);
        if others.iter().any(|(_, number)| *number > pass.number) {
            return Err(PASS_IS_OVER.into());
        }
        for (other, _) in &others {
            ring.leave_epoch(*other);
        }
        for (other, _) in others {
            self.depart(other, ring);
        }
        Ok(())
    }

    /// Informs a consumer that another one replaces it. It may read its granted batches until it
    /// hangs up.
    fn depart(&mut self, id: ConsumerId, ring: &Arc<Ring>) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        // Drops the ring's `ConsumerSocket` too.
        ring.depart(id);
        connection.role = Role::Departed(ring.clone());
        // This fails only if it was never added. Room in its socket no longer matters.
        let _ =
            self.poller.modify(&*connection.socket, &mut EpollEvent::new(EpollFlags::EPOLLIN, id));
        let pid = connection.peer.pid;
        log::debug!("channel {:?}: process {pid}: {PASS_IS_OVER}", ring.config().channel);
        let refused = protocol::refused(PASS_IS_OVER);
        if send(&*connection.socket, &refused, None, false).is_err() {
            // Its socket is full, so it is not reading it. It sees a hang-up instead of the reason.
            let _ = shutdown(connection.socket.as_raw_fd(), Shutdown::Write);
        }
    }

    /// Receives the messages that this consumer has sent so far.
    fn serve_out_of_turn(&mut self, id: ConsumerId) {
        // The caller needs the messages.
        let buffer = std::mem::replace(&mut self.buffer, buffer());
        for _ in 0..TURNS_AT_END {
            self.serve(id, EpollFlags::EPOLLIN);
        }
        self.buffer = buffer;
    }

    /// Makes the channel begin as HELLO requests. Consumers that prevent it but have hung up are
    /// noticed here, if they were not before.
    fn prepare(&mut self, ring: &Ring, hello: &Hello) -> Result<(Admitted, u64), String> {
        let mut fewest = usize::MAX;
        loop {
            match ring.admit(hello) {
                Ok(admitted) => return Ok(admitted),
                Err(Denied::Because(reason)) => return Err(reason),
                Err(Denied::WhileConnected(others, reason)) => {
                    if others.len() >= fewest {
                        return Err(reason);
                    }
                    fewest = others.len();
                    for other in others {
                        self.serve_out_of_turn(other);
                    }
                }
            }
        }
    }

    /// Answers GET_STATUS.
    fn make_status(&mut self, id: ConsumerId) -> NextAction {
        let (Some(status), Some(connection)) = (&self.status, self.connections.get_mut(id)) else {
            return NextAction::Refuse("this host does not serve its status".into());
        };
        if let Role::StatusClient(last) = &connection.role
            && !last.is_received(&connection.socket)
        {
            return NextAction::Refuse("GET_STATUS before the last answer was received".into());
        }
        connection.role = Role::StatusClient(StatusAnswer::new(status(), Instant::now()));
        self.send_status(id)
    }

    /// Sends the rest of the answer to a status client, and watches for room for the remainder.
    fn send_status(&mut self, id: ConsumerId) -> NextAction {
        let Some(Connection { socket, role: Role::StatusClient(answer), .. }) =
            self.connections.get_mut(id)
        else {
            return NextAction::Continue;
        };
        let events = match answer.send(&*socket) {
            Ok(true) => EpollFlags::EPOLLIN,
            Ok(false) => EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT,
            Err(Errno::EPIPE | Errno::ECONNRESET) => return NextAction::HangUp,
            Err(errno) => return NextAction::Refuse(format!("sending failed: {errno}")),
        };
        match self.poller.modify(&*socket, &mut EpollEvent::new(events, id)) {
            Ok(()) => NextAction::Continue,
            Err(errno) => NextAction::Refuse(format!("the host can't watch its socket: {errno}")),
        }
    }

    /// Logs that a consumer has hung up, if it had batches that were not ACKed.
    fn report_leaving(&mut self, id: ConsumerId) {
        let Some(Connection { peer, role: Role::Consumer(ring, _), .. }) = self.connections.get(id)
        else {
            return;
        };
        let unacked = ring.unacked(id);
        if unacked > 0 {
            let line = || {
                format!(
                    "channel `{}`: process {} has left without an ACK for {unacked} of its \
                     batches: {}",
                    ring.config().channel,
                    peer.pid,
                    goes_on(ring)
                )
            };
            self.log_limit.line(Level::Info, line);
        }
    }

    /// Hangs up on a consumer and takes back its grants. If there is a reason, it is sent as
    /// REFUSED before.
    fn close(&mut self, id: ConsumerId, refused: Option<&str>) {
        let Some(Connection { socket, peer, role }) = self.connections.remove(id) else { return };
        if let Role::Departed(ring) = &role {
            ring.gone(id);
        }
        if let Role::Consumer(ring, _) = &role {
            // Drops the ring's `ConsumerSocket`, so that this is the last owner of the socket.
            ring.disconnect(id);
            log::debug!("channel {:?}: process {} is gone", ring.config().channel, peer.pid);
        }
        if let Some(reason) = refused {
            let line = || format!("process {} (user {}): hanging up: {reason}", peer.pid, peer.uid);
            self.log_limit.warn(line);
            // If this can't be sent, the consumer sees only the hang-up.
            let _ = send(&socket, &protocol::refused(reason), None, false);
        }
        // This fails only if it was never added.
        let _ = self.poller.delete(socket.as_fd());
        hang_up(&socket, &mut self.buffer);
    }
}

/// The fate of batches that a consumer had not ACKed.
fn goes_on(ring: &Ring) -> &'static str {
    match ring.division().0 {
        Mode::Share => "they go to the next consumer that is ready",
        Mode::Broadcast => "the others get them all the same",
        Mode::Rank => "its rank gets them again when it connects",
    }
}

/// The ring that HELLO requests, or the reason to refuse.
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
    if let Some(length) = hello.pass.as_ref().map(|pass| pass.program.len())
        && length > Pass::MAX_PROGRAM
    {
        let most = Pass::MAX_PROGRAM;
        return Err(format!("pass: expected a program of at most {most} bytes, found {length}"));
    }
    channels.get(&hello.channel).ok_or_else(|| {
        let mut known: Vec<_> = channels.keys().map(|name| format!("{name:?}")).collect();
        known.sort();
        format!("no channel {:?} here; there are: {}", hello.channel, known.join(", "))
    })
}

#[cfg(test)]
mod tests;
