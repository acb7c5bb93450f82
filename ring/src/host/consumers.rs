//! The host's ends of the consumers' sockets: messages go out in order and never block.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use nix::sys::socket::{Shutdown, shutdown};

use super::table::ConsumerId;
use crate::socket::send;

/// A descriptor that travels beside a message; kept alive until it is sent.
pub(super) type Beside = Option<Arc<OwnedFd>>;

/// Who is at the other end, as the kernel and the consumer itself say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    /// 0 where it is in a process namespace that we can't see.
    pub(super) pid: i32,
    pub(super) uid: u32,
}

/// A consumer's socket. The server's thread receives from it; whoever holds the ring's lock sends.
///
/// A full socket is not held against a consumer. Its grants alone can't fill one unless it has
/// very many credits (they take less than 1 KiB each of the 200 KiB that a socket holds by
/// default), but a program that is busy for an hour may leave hundreds of ends of empty epochs
/// unread, and breaks no rule by it. So what does not fit waits here, in order, and the table is
/// told: it grants this consumer nothing and tells nobody an end until there is room, which bounds
/// `unsent` by what one command can cause. Nor can a consumer that breaks the rules (RELEASEs
/// grants whose messages it never read, by guessing their numbers) make it grow: its credits still
/// bound what it holds, and once the socket is full it gets no more.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) id: ConsumerId,
    pub(super) peer: Peer,
    pub(super) client: String,
    /// The oldest grant that was reported as stuck, and how often.
    pub(super) reported: (u64, u64),
    socket: Arc<OwnedFd>,
    poller: Arc<Epoll>,
    unsent: VecDeque<(Vec<u8>, Beside)>,
}

impl Link {
    pub(super) fn new(
        id: ConsumerId,
        peer: Peer,
        client: String,
        socket: Arc<OwnedFd>,
        poller: Arc<Epoll>,
    ) -> Link {
        Link { id, peer, client, reported: (0, 0), socket, poller, unsent: VecDeque::new() }
    }

    /// Sends a message, or keeps it where the socket is full. True when it was kept.
    pub(super) fn send(&mut self, message: &[u8], beside: Beside) -> bool {
        if self.unsent.is_empty() && self.send_now(message, &beside) {
            return false;
        }
        self.unsent.push_back((message.to_vec(), beside));
        if self.unsent.len() == 1 {
            self.watch(EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT);
        }
        true
    }

    /// Sends what was kept. True when nothing is left.
    pub(super) fn flush(&mut self) -> bool {
        while let Some((message, beside)) = self.unsent.pop_front() {
            if !self.send_now(&message, &beside) {
                self.unsent.push_front((message, beside));
                return false;
            }
        }
        self.watch(EpollFlags::EPOLLIN);
        true
    }

    /// False where the socket is full.
    fn send_now(&self, message: &[u8], beside: &Beside) -> bool {
        let beside = beside.as_ref().map(|fd| fd.as_fd());
        match send(&self.socket, message, beside, false) {
            Err(Errno::EAGAIN) => return false,
            Ok(()) | Err(Errno::EPIPE | Errno::ECONNRESET) => {}
            Err(errno) => {
                // A grant that can't be sent must not be lost: end the connection, and the
                // server's thread gives back all that this consumer held.
                log::warn!("consumer {}: hanging up, sending failed: {errno}", self.peer.pid);
                let _ = shutdown(self.socket.as_raw_fd(), Shutdown::Both);
            }
        }
        true
    }

    fn watch(&self, events: EpollFlags) {
        // Fails only where the server has taken the socket off its list, to hang up.
        let _ = self.poller.modify(&self.socket, &mut EpollEvent::new(events, self.id));
    }
}
