//! What a ring does for the server, which communicates with its consumers: it admits and welcomes
//! them, obeys their messages, and forgets those that have hung up.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use nix::errno::Errno;
use nix::sys::epoll::Epoll;

use super::consumer_socket::ConsumerSocket;
use super::delivery::{Admitted, Denied, LockedRing};
use super::observer;
use super::ring::Ring;
use super::state::RingState;
use super::status;
use super::table::{ConsumerId, Table};
use crate::protocol::{self, Hello, PROTOCOL, ToHost, Welcome};
use crate::socket::{Peer, send};

/// The refusal of a consumer that does not understand LARGER_SLOTS.
const NO_LARGER_SLOTS: &str = "this channel has slots that were made later, and the reader can't \
                               read these; use a reader of the host's release";
/// The name that a consumer sends is cut to this many characters.
const MAX_CLIENT_CHARS: usize = 200;

impl Ring {
    /// Admits a consumer, or refuses it. Also returns how often all consumers had been ended before
    /// that.
    pub(super) fn admit(&self, hello: &Hello) -> Result<(Admitted, u64), Denied> {
        // The consumers whose request failed get its error, and this one does not.
        self.change(|state, _| self.restart_after_failure(state)).map_err(|others| {
            let why = "what another consumer asked for has failed, and it is still connected; \
                       connect again";
            Denied::WhileConnected(others, why.into())
        })?;
        let request = self.delivery().request(hello)?;
        self.change(|state, _| {
            let admitted = request.admit(LockedRing {
                writer_ended: state.writer_ended,
                batches: self.batches(),
                config: self.config(),
                table: &mut state.table,
            })?;
            Ok((admitted, state.failure.0))
        })
    }

    /// Welcomes a consumer that was [admitted](Ring::admit).
    ///
    /// # Errors
    /// The kernel's error: the consumer has hung up already, or the kernel can't pass a descriptor.
    /// `ECONNRESET` if its request has failed since, or it does not understand the channel's larger
    /// slots; it has been sent the reason then.
    pub(super) fn connect(
        &self,
        id: ConsumerId,
        peer: Peer,
        hello: &Hello,
        admitted: (Admitted, u64),
        socket: Arc<OwnedFd>,
        poller: Arc<Epoll>,
    ) -> nix::Result<()> {
        let (Admitted { rank, credits, mode, resumed, settings, length }, failures) = admitted;
        let welcome = protocol::welcome(&Welcome {
            protocol: PROTOCOL,
            host: concat!("pipemill ", env!("CARGO_PKG_VERSION")).into(),
            channel: self.config().channel.clone(),
            mode,
            slots: self.slots(),
            slot_bytes: self.config().slot_bytes as u64,
            credits,
            resumed,
            settings,
            views: true,
            length,
        });
        send(&socket, &welcome, Some(self.memory.fd()), false)?;
        let client = hello.client.chars().take(MAX_CLIENT_CHARS).collect();
        self.change(|state, now| {
            let (failed, message) = &state.failure;
            if *failed != failures {
                // It fails only if the consumer has hung up.
                let _ = send(&socket, message, None, false);
                return Err(Errno::ECONNRESET);
            }
            if state.larger.exist() && !hello.larger_slots {
                let _ = send(&socket, &protocol::refused(NO_LARGER_SLOTS), None, false);
                return Err(Errno::ECONNRESET);
            }
            state.sockets.push(ConsumerSocket::new(id, peer, client, socket, poller));
            state.table.connect(id, credits, rank, hello.larger_slots, now);
            state.missing.come(rank, now);
            state.look_for_missing(now);
            state.look_for_idle(id, now);
            if let Some((_, schema)) = self.schema.get() {
                state.send(state.sockets.len() - 1, schema, None, now);
            }
            if let Some(reason) = self.delivery().connected(rank) {
                state.refuse(id, &reason);
            }
            Ok(())
        })
    }

    /// Handles a consumer's message. An error is the reason to refuse the consumer.
    pub(super) fn obey(&self, id: ConsumerId, message: &ToHost<'_>) -> Result<(), String> {
        let report = |state: &RingState| {
            if let Some(observer) = self.observer() {
                observer::report_message(observer, &state.table, id, message);
            }
        };
        let done = self.change(|state, now| match message {
            ToHost::Ack(grants) => {
                report(state);
                let done = state.table.ack(id, grants.iter(), now);
                state.look_for_idle(id, now);
                done
            }
            ToHost::Release(grants) => {
                report(state);
                let done = state.table.release(id, grants.iter(), now);
                state.look_for_idle(id, now);
                done
            }
            ToHost::EndEpoch(epoch) => {
                state.table.skip_epoch(id, *epoch, now);
                Ok(())
            }
            ToHost::Views => {
                state.want_views(id);
                Ok(())
            }
            ToHost::Hello(_) | ToHost::GetStatus => Ok(()),
        });
        match (message, done) {
            (ToHost::Hello(_), _) => Err("a second HELLO on one connection".into()),
            (ToHost::GetStatus, _) => Err("GET_STATUS on the connection of a consumer".into()),
            (_, done) => done.map_err(|not_held| not_held.to_string()),
        }
    }

    /// Sends the kept messages of a consumer whose socket has room again.
    pub(super) fn flush(&self, id: ConsumerId) {
        self.change(|state, now| {
            let socket = state.sockets.iter_mut().find(|socket| socket.id == id);
            if socket.is_some_and(ConsumerSocket::flush) {
                state.table.set_blocked(id, false, now);
            }
        });
    }

    /// Removes a consumer that has hung up, or on which the server is about to hang up. The batches
    /// that it had not ACKed go back to the queue.
    pub(super) fn disconnect(&self, id: ConsumerId) {
        self.forget(id, Table::disconnect);
    }

    fn forget(&self, id: ConsumerId, how: fn(&mut Table, ConsumerId, Instant)) {
        self.change(|state, now| {
            let rank = state.table.consumers().iter().find(|consumer| consumer.id == id);
            let rank = rank.map_or(0, |consumer| consumer.rank);
            let socket = state.sockets.iter().find(|socket| socket.id == id);
            let pid = socket.map_or(0, |socket| socket.peer.pid);
            state.leave(id, now);
            if let Some(observer) = self.observer() {
                observer::report_disconnect(observer, &state.table, id);
            }
            how(&mut state.table, id, now);
            state.missing.leave(rank, pid, now);
            state.look_for_missing(now);
        });
    }

    /// Handles a consumer whose program has left the epoch in which the consumer began.
    pub(super) fn leave_epoch(&self, id: ConsumerId) {
        self.change(|state, now| state.table.leave_epoch(id, now));
    }

    /// As [`disconnect`](Ring::disconnect), but the consumer may read what it holds until it is
    /// [`gone`](Ring::gone).
    pub(super) fn depart(&self, id: ConsumerId) {
        self.forget(id, Table::depart);
    }

    /// Handles the hang-up of a consumer that has departed.
    pub(super) fn gone(&self, id: ConsumerId) {
        self.change(|state, _| state.table.gone(id));
    }

    /// Number of batches that were granted to the consumer and not ACKed.
    pub(super) fn unacked(&self, id: ConsumerId) -> usize {
        self.change(|state, _| state.table.unacked(id))
    }

    /// Grants and sends nothing from now on: the server is about to hang up on all consumers.
    pub(super) fn close(&self) {
        self.change(|state, _| state.table.close());
    }

    /// Log lines for the consumers that hold others up, at most one for each per 30 s.
    pub(super) fn stuck(&self, now: Instant) -> Vec<String> {
        status::stuck(&self.config().channel, &mut self.lock(), now)
    }
}
