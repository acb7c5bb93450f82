//! The writing end: a [`Ring`] for each channel, filled by the one thread that writes to it, and
//! one [`Server`] for the process, which communicates with the consumers of all rings.
//!
//! Locks: each ring has one mutex, around its slot table and its consumers' sockets. No thread ever
//! holds two of these mutexes. Nothing slow is done under a mutex: sends don't block, and the index
//! of a batch is written before. The server's own state belongs to its thread alone. Messages are
//! sent under the lock, so that a consumer gets them in the order of the table.
//!
//! - `budget`: the memory budget of a ring's channel: missing memory is waited for while consumers
//!   hold it, and is an error if nobody does.
//! - `config`: the settings of a ring and of the server, and the ring's errors.
//! - `connections`: the server's connections: their purposes, their limit, and which one is closed
//!   when the limit is reached.
//! - `consumer_socket`: the host's end of one consumer's socket: messages go out in order, and
//!   sending never blocks.
//! - `dedicated`: the dedicated buffers of a ring: the ones that hold a batch, and the ones that
//!   are kept for later batches.
//! - `delivery`: the interface between a ring and the part of the host that delivers its batches:
//!   that part decides which consumers are welcome, and where the channel begins for them.
//! - `fitted`: slots that were made as large as the channel's batches, and dedicated buffers where
//!   these are too few.
//! - `index`: the index of a batch that is being filled: its columns, after the payload and the
//!   names.
//! - `larger`: larger slots, for batches of a fixed number of records that turn out not to fit a
//!   slot.
//! - `log_limit`: limits the log lines about ended connections: a program can make thousands of
//!   them per second.
//! - `missing_consumers`: for how long the writer waited while too few consumers were connected.
//! - `observer`: the interface for observers of every batch of a ring, such as a trace.
//! - `restarts`: a ring whose channel begins elsewhere, because a consumer asked for that, or
//!   because what consumers asked for has failed.
//! - `ring`: one channel's ring: its memory, and its state under a lock.
//! - `sealed_batch`: a batch in memory of its own, which belongs to no ring.
//! - `server`: the server of a process's rings: it binds the socket, and its thread communicates
//!   with the consumers.
//! - `server_loop`: the thread that communicates with the consumers of all rings: it accepts and
//!   welcomes them, obeys their messages, and notices when they hang up.
//! - `serving`: what a ring does for the server: it admits consumers, welcomes them, obeys their
//!   messages, and forgets those that have hung up.
//! - `slot_memory`: memory that is divided into slots of one size.
//! - `state`: the state under a ring's lock: the slot table, the consumers' sockets and the
//!   dedicated buffers.
//! - `status`: a snapshot of a ring for reports, and the log line about a consumer that holds
//!   others up.
//! - `status_answer`: the answer to a status client, in as many messages as necessary.
//! - `sync`: the lock of a ring, where all threads of the host meet: std's, or that of shuttle,
//!   which tries many orders in which threads may run.
//! - `table`: who holds which batch: the slot table, the queue and the credits, as a pure state
//!   machine.
//! - `threads`: the threads of a host at one ring, in many orders: the writer, the server, and one
//!   that waits until all is delivered.
//! - `views`: writes the strings of a field as Arrow's views, for consumers that make Arrow's
//!   arrays.
//! - `waits`: how long a consumer waited for each batch.
//! - `writer`: the memory of one batch while it is filled: a slot, or a dedicated buffer where a
//!   record needs more.
//! - `writing`: what a ring does for those who write to it: they take memory, queue filled batches,
//!   end epochs and the stream, and wait until all is delivered.

mod budget;
mod config;
mod connections;
mod consumer_socket;
mod dedicated;
mod delivery;
mod fitted;
mod index;
mod larger;
mod log_limit;
mod missing_consumers;
mod observer;
mod restarts;
mod ring;
mod sealed_batch;
mod server;
mod server_loop;
mod serving;
mod slot_memory;
mod state;
mod status;
mod status_answer;
mod sync;
mod table;
#[cfg(all(test, feature = "shuttle"))]
mod threads;
mod views;
mod waits;
mod writer;
mod writing;

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
pub use sealed_batch::{SealedBatch, SealedMemory};
pub use server::{Server, ServerError};
pub use server_loop::StatusText;
pub use status::{ConsumerStatus, Status};
#[cfg(feature = "unstable")]
pub use table::check_table;
pub use table::{ConsumerId, RecordPlace, Restart, Sought, Table};
pub use waits::WaitTimes;
pub use writer::{BatchInfo, Column, Writer};
