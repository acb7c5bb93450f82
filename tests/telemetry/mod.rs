//! The host's reports about itself, while it runs and at its end.

mod bottleneck;
mod log;
mod progress;
mod slow_clients;
mod unread;
mod waits;
