//! What the host tells of itself, while it runs and at its end.

mod bottleneck;
mod log;
mod progress;
mod slow_clients;
mod unread;
mod waits;
