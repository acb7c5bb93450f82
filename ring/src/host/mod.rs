//! The writing end: a [`Ring`] per channel, filled by that channel's one writing thread, and one
//! [`Server`] per process that speaks with the consumers of all of them.
//!
//! Locks: each ring has one mutex, around its slot table and its consumers' sockets. No thread
//! ever holds two of them, and nothing that waits is done under one: sends don't block, and the
//! copying of an index happens before. The server's own state belongs to its thread alone.
//! Messages are sent under the lock so that a consumer gets them in the order of the table.

mod config;
mod consumers;
mod ring;
mod server;
mod status;
mod table;
mod witness;
mod writer;

pub use crate::endpoint::EndpointError;
pub use config::{AcquireError, RingConfig, RingError};
pub use ring::Ring;
pub use server::{Server, ServerError, StatusText};
pub use status::{ConsumerStatus, Status};
pub use witness::{Seen, Witness};
pub use writer::{BatchInfo, Column, Writer};
