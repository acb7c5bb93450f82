//! The writing end: a [`Ring`] for each channel, filled by the one thread that writes to it, and
//! one [`Server`] for the process, which speaks with the consumers of all rings.
//!
//! Locks: each ring has one mutex, around its slot table and its consumers' sockets. No thread
//! ever holds two of these mutexes. Nothing slow is done while one is held: sends don't block, and
//! the index of a batch is written before. The server's own state belongs to its thread alone.
//! Messages are sent under the lock, so that a consumer gets them in the order of the table.

mod attendance;
mod beginning;
mod budget;
mod config;
mod connections;
mod consumer_socket;
mod dedicated;
mod index;
mod ledger;
mod log_limit;
mod observer;
mod recent;
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
mod writer;

pub use crate::endpoint::{EndpointError, remove_dead_sockets};
pub use crate::memory::MemoryError;
pub use beginning::{Beginning, Beginnings, Match, slots_of_ranks};
pub use config::{AcquireError, PlaceMissing, RingConfig, RingError, ServerConfig};
pub use ledger::Checkpoint;
pub use observer::{BatchEvent, Observer};
pub use ring::Ring;
pub use server::{Server, ServerError};
pub use server_loop::StatusText;
pub use status::{ConsumerStatus, Status};
#[cfg(feature = "unstable")]
pub use table::check_table;
pub use writer::{BatchInfo, Column, Writer};
