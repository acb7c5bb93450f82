//! The server's connections: their purposes, their limit, and which one is closed when the limit is
//! reached.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit};

use super::ring::Ring;
use super::status_answer::StatusAnswer;
use super::table::ConsumerId;
use crate::protocol::Pass;
use crate::socket::Peer;

/// A connection without a message for this long after it was accepted is closed.
pub(super) const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// At most one in this many of the files that this process may open can be a connection. The others
/// are for sources, and for the descriptors in transit to consumers: at most three for each
/// connection (the ring and two dedicated buffers), which the kernel counts against the same limit.
const FILES_PER_CONNECTION: u64 = 4;
/// This number of connections is always allowed.
const MIN_CONNECTIONS: usize = 8;

pub(super) struct Connection {
    pub(super) socket: Arc<OwnedFd>,
    pub(super) peer: Peer,
    pub(super) role: Role,
}

/// The purpose of a connection.
pub(super) enum Role {
    /// It has sent nothing yet. The time at which it was accepted.
    Silent(Instant),
    StatusClient(StatusAnswer),
    /// The ring that it reads, and the pass of its program.
    Consumer(Arc<Ring>, Option<Pass>),
    /// A newer pass has taken the place of this consumer of the ring. It must hang up.
    Departed(Arc<Ring>),
}

/// All connections, the oldest first: their ids increase.
pub(super) struct Connections {
    all: BTreeMap<ConsumerId, Connection>,
    limit: usize,
}

impl Connections {
    /// At most `max` connections, or fewer if this process may open only few files.
    pub(super) fn new(max: usize) -> Connections {
        // This can't fail: the resource is a constant of the kernel.
        let files = getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(soft, _)| soft);
        let fit = usize::try_from(files / FILES_PER_CONNECTION).unwrap_or(usize::MAX);
        let limit = max.min(fit.max(MIN_CONNECTIONS));
        if limit < max {
            log::info!(
                "at most {limit} connections at once, not {max}: this process may open {files} \
                 files (ulimit -n)"
            );
        }
        Connections { all: BTreeMap::new(), limit }
    }

    /// The largest number of connections.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Whether the number of connections is at its limit.
    pub(super) fn is_full(&self) -> bool {
        self.all.len() >= self.limit
    }

    pub(super) fn insert(&mut self, id: ConsumerId, connection: Connection) {
        self.all.insert(id, connection);
    }

    pub(super) fn remove(&mut self, id: ConsumerId) -> Option<Connection> {
        self.all.remove(&id)
    }

    pub(super) fn get(&self, id: ConsumerId) -> Option<&Connection> {
        self.all.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: ConsumerId) -> Option<&mut Connection> {
        self.all.get_mut(&id)
    }

    /// The consumers of this ring from other passes of the same program, with these passes.
    pub(super) fn other_passes(&self, ring: &Ring, pass: &Pass) -> Vec<(ConsumerId, u64)> {
        let number_of = |connection: &Connection| match &connection.role {
            Role::Consumer(read, Some(of))
                if std::ptr::eq(&**read, ring) && of.program == pass.program =>
            {
                Some(of.number)
            }
            _ => None,
        };
        let all = self.all.iter().filter_map(|(id, one)| Some((*id, number_of(one)?)));
        all.filter(|(_, number)| *number != pass.number).collect()
    }

    /// The ids of all connections.
    pub(super) fn ids(&self) -> Vec<ConsumerId> {
        self.all.keys().copied().collect()
    }

    /// The oldest connection that has sent nothing.
    pub(super) fn oldest_silent(&self) -> Option<ConsumerId> {
        let silent = |connection: &Connection| matches!(connection.role, Role::Silent(_));
        self.all.iter().find(|(_, connection)| silent(connection)).map(|(id, _)| *id)
    }

    /// The status client whose last request is the oldest.
    pub(super) fn idlest_status_client(&self) -> Option<ConsumerId> {
        let asked = |(id, connection): (&ConsumerId, &Connection)| match &connection.role {
            Role::StatusClient(answer) => Some((answer.asked(), *id)),
            Role::Silent(_) | Role::Consumer(..) | Role::Departed(_) => None,
        };
        self.all.iter().filter_map(asked).min().map(|(_, id)| id)
    }

    /// The connections that have sent nothing within [`HELLO_TIMEOUT`].
    pub(super) fn overdue(&self, now: Instant) -> Vec<ConsumerId> {
        let overdue = |connection: &Connection| match connection.role {
            Role::Silent(since) => now.saturating_duration_since(since) >= HELLO_TIMEOUT,
            Role::StatusClient(_) | Role::Consumer(..) | Role::Departed(_) => false,
        };
        self.all.iter().filter(|(_, one)| overdue(one)).map(|(id, _)| *id).collect()
    }
}
