//! pipemill's shared-memory ring: the layout of a slot ([`layout`]), the messages on the socket
//! ([`protocol`]), the host's writing end ([`host`]), the Rust reader ([`reader`]) and a client
//! that asks a host for its status ([`status_client`]). The contract is `docs/ring.md`.
//!
//! This crate has all code that touches shared memory. Its `unsafe` code is in `memory`, in the
//! calls of `memory` by `host::ring` and `host::writer`, and in the two functions of `socket` that
//! receive a file descriptor from the kernel.
//!
//! The feature `unstable` makes `host::check_table` public for the fuzz targets. Other users can't
//! rely on it.

#[cfg(not(all(target_os = "linux", target_endian = "little")))]
compile_error!("the ring needs Linux (sealed memfd) on a little-endian machine");

pub mod endpoint;
pub mod host;
pub mod layout;
mod memory;
pub mod protocol;
pub mod reader;
mod socket;
pub mod status_client;
mod trust;

pub use memory::MemoryError;
pub use trust::OtherUser;
