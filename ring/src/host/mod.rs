//! The writing end: a [`Ring`] for each channel, filled by the one thread that writes to it, and
//! one [`Server`] for the process, which speaks with the consumers of all rings.
//!
//! Locks: each ring has one mutex, around its slot table and its consumers' sockets. No thread
//! ever holds two of these mutexes. Nothing slow is done while one is held: sends don't block, and
//! the index of a batch is written before. The server's own state belongs to its thread alone.
//! Messages are sent under the lock, so that a consumer gets them in the order of the table.
//!
//! - `budget`: the memory of the writer that is counted in the channel's budget.
//! - `config`: the settings of a ring and of the server, and the ring's errors.
//! - `connections`: the server's connections: what each is for, how many there may be, and which
//!   one has to go where there are too many.
//! - `consumer_socket`: the host's end of one consumer's socket: messages go out in order, and
//!   sending never blocks.
//! - `dedicated`: the dedicated buffers of a ring: those that hold a batch, and those that are kept
//!   for the next ones.
//! - `delivery`: what a ring asks of the part of the host that delivers its batches: who is
//!   welcome, and where the channel begins for them.
//! - `index`: the index of a batch that is being filled: its columns, after the payload and the
//!   names.
//! - `log_limit`: limits the lines about connections that are ended: a program can make thousands
//!   of them a second.
//! - `missing_consumers`: for how long the writer waited while too few consumers were connected.
//! - `observer`: the interface for those that follow every batch of a ring, such as a trace.
//! - `ring`: one channel's ring: its memory, and its state under a lock.
//! - `server`: the server of a process's rings: it binds the socket, and its thread speaks with the
//!   consumers.
//! - `server_loop`: the thread that speaks with the consumers of all rings: it accepts and welcomes
//!   them, obeys their messages, and notices when they hang up.
//! - `state`: what a ring's lock protects: the slot table, the consumers' sockets and the dedicated
//!   buffers.
//! - `status`: a snapshot of a ring for reports, and the log line about a consumer that holds
//!   others up.
//! - `status_answer`: the answer to a status client, in as many messages as it takes.
//! - `sync`: the lock of a ring, where all threads of the host meet: std's, or that of shuttle,
//!   which tries many orders in which threads may run.
//! - `table`: who holds which batch: the slot table, the queue and the credits, as a pure state
//!   machine.
//! - `threads`: the threads of a host at one ring, in many orders: the writer, the server, and one
//!   that waits until all is delivered.
//! - `waits`: how long a consumer waited for each batch.
//! - `writer`: the memory of one batch while it is filled: a slot, or a dedicated buffer where a
//!   record needs more.

mod budget;
mod config;
mod connections;
mod consumer_socket;
mod dedicated;
mod delivery;
mod index;
mod log_limit;
mod missing_consumers;
mod observer;
mod ring;
mod server;
mod server_loop;
mod state;
mod status;
mod status_answer;
mod sync;
mod table;
#[cfg(all(test, feature = "shuttle"))]
mod threads;
mod waits;
mod writer;

pub use crate::endpoint::{EndpointError, remove_dead_sockets};
pub use crate::memory::MemoryError;
pub use config::{
    Interrupt, PlaceMissing, Remedies, RingConfig, RingError, ServerConfig, WriteError,
};
pub use delivery::{
    Admitted, Delivery, Denied, LockedRing, RankError, Request, TooFewSlots, check_rank,
    check_rank_is_free, credits, is_same_division, slots_of_ranks,
};
pub use observer::{BatchEvent, Observer};
pub use ring::Ring;
pub use server::{Server, ServerError};
pub use server_loop::StatusText;
pub use status::{ConsumerStatus, Status};
#[cfg(feature = "unstable")]
pub use table::check_table;
pub use table::{ConsumerId, RecordPlace, Restart, Sought, Table};
pub use waits::WaitTimes;
pub use writer::{BatchInfo, Column, Writer};
