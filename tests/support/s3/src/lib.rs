//! S3 servers for tests and benches, a proxy that makes them slow or lets them fail, and an endpoint
//! that gives out credentials. It knows nothing of pipemill.

pub mod client;
pub mod credentials;
pub mod http;
pub mod names;
pub mod proxy;
pub mod servers;
