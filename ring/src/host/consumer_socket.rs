//! The host's end of one consumer's socket: messages go out in order, and sending never blocks.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use nix::sys::socket::{Shutdown, shutdown};

use super::table::ConsumerId;
use super::waits::ConsumerWaits;
use crate::protocol;
use crate::socket::{Peer, send};

/// The descriptor that is attached to a message. It stays open until the message is sent.
pub(super) type AttachedFd = Option<Arc<OwnedFd>>;

/// The socket of a consumer. The server's thread receives from it; any thread that holds the ring's
/// lock sends.
///
/// A full socket is not the consumer's fault. Its grants alone can't fill one unless it has very
/// many credits: they take less than 1 KiB each of the 200 KiB that a socket holds by default. But
/// a program that is busy for an hour may leave the ends of hundreds of empty epochs unread without
/// breaking a rule.
///
/// So a message that does not fit waits in `unsent`, in order, and the table learns that this
/// consumer is blocked. The table then grants this consumer nothing and sends no ends to anybody
/// until there is room. This limits `unsent` to the messages that one command can cause, even for a
/// consumer that breaks the rules (that guesses the numbers of grants which it never read, and
/// RELEASEs them): its credits limit its grants, and a full socket gets no more.
#[derive(Debug)]
pub(super) struct ConsumerSocket {
    pub(super) id: ConsumerId,
    pub(super) peer: Peer,
    /// The consumer's name for itself.
    pub(super) client: String,
    /// How long the consumer waited for its batches.
    pub(super) waits: ConsumerWaits,
    /// Whether the consumer makes Arrow's arrays, for which batches have views of strings.
    pub(super) wants_views: bool,
    /// The oldest grant that was logged as stuck, and how many times.
    pub(super) reported: (u64, u64),
    socket: Arc<OwnedFd>,
    poller: Arc<Epoll>,
    unsent: VecDeque<(Vec<u8>, AttachedFd)>,
    /// Whether the host has hung up.
    is_ended: bool,
}

impl ConsumerSocket {
    pub(super) fn new(
        id: ConsumerId,
        peer: Peer,
        client: String,
        socket: Arc<OwnedFd>,
        poller: Arc<Epoll>,
    ) -> ConsumerSocket {
        let unsent = VecDeque::new();
        ConsumerSocket {
            id,
            peer,
            client,
            waits: ConsumerWaits::default(),
            wants_views: false,
            reported: (0, 0),
            socket,
            poller,
            unsent,
            is_ended: false,
        }
    }

    /// Sends a message, or keeps it if the socket is full. Returns true if it was kept.
    pub(super) fn send(&mut self, message: &[u8], attached: AttachedFd) -> bool {
        if self.unsent.is_empty() && self.send_now(message, &attached) {
            return false;
        }
        self.unsent.push_back((message.to_vec(), attached));
        if self.unsent.len() == 1 {
            self.watch(EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT);
        }
        true
    }

    /// Sends the reason to refuse the consumer, and hangs up. The server's thread notices the
    /// hang-up.
    pub(super) fn refuse(&mut self, reason: &str) {
        self.end_with(&protocol::refused(reason));
    }

    /// Sends this message as the last one, and hangs up.
    pub(super) fn end_with(&mut self, message: &[u8]) {
        if std::mem::replace(&mut self.is_ended, true) {
            return;
        }
        self.send(message, None);
        // It fails only if the consumer has hung up.
        let _ = shutdown(self.socket.as_raw_fd(), Shutdown::Both);
    }

    /// Sends the messages that were kept. Returns true if none is left.
    pub(super) fn flush(&mut self) -> bool {
        while let Some((message, attached)) = self.unsent.pop_front() {
            if !self.send_now(&message, &attached) {
                self.unsent.push_front((message, attached));
                return false;
            }
        }
        self.watch(EpollFlags::EPOLLIN);
        true
    }

    /// False if the socket is full.
    fn send_now(&self, message: &[u8], attached: &AttachedFd) -> bool {
        let attached = attached.as_ref().map(|fd| fd.as_fd());
        match send(&self.socket, message, attached, false) {
            Err(Errno::EAGAIN) => return false,
            Ok(()) | Err(Errno::EPIPE | Errno::ECONNRESET) => {}
            Err(errno) => {
                // A grant that can't be sent must not be lost: this ends the connection, and the
                // server's thread takes back all grants of this consumer.
                let Peer { pid, uid } = self.peer;
                log::warn!("process {pid} (user {uid}): hanging up: sending failed: {errno}");
                let _ = shutdown(self.socket.as_raw_fd(), Shutdown::Both);
            }
        }
        true
    }

    fn watch(&self, events: EpollFlags) {
        // This fails only if the server has removed the socket from its poller, to hang up.
        let _ = self.poller.modify(&self.socket, &mut EpollEvent::new(events, self.id));
    }
}
