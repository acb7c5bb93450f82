//! pipemill's shared-memory ring: the layout of a slot, the protocol on the socket, the host's
//! writing end ([`host`]), the Rust reader ([`reader`]) and the one who only looks on ([`observer`]). The contract is `docs/ring.md`.
//!
//! All code that touches shared memory is here, and all `unsafe` of it is in `memory` and in the
//! two places that receive a file descriptor from the kernel (`socket`).

#[cfg(not(all(target_os = "linux", target_endian = "little")))]
compile_error!("the ring needs Linux (sealed memfd) on a little-endian machine");

pub mod endpoint;
pub mod host;
pub mod layout;
mod memory;
pub mod observer;
pub mod protocol;
pub mod reader;
mod socket;

pub use memory::MemoryError;
