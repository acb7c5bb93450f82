//! S3 servers for tests and benches, a proxy that delays answers and injects faults, and an
//! endpoint that gives out credentials. This crate does not depend on pipemill.

#![forbid(unsafe_code)]

pub mod client;
pub mod credentials;
pub mod http;
pub mod names;
pub mod proxy;
pub mod servers;
pub mod skips;
