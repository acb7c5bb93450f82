//! The ring as its users meet it: real sockets, real memory, real processes that are killed.

mod child;
mod deaths;
mod endpoint;
mod ends;
mod fake_host;
mod hostile;
mod raw;
mod sealed;
mod setup;
mod sharing;
mod witness;
