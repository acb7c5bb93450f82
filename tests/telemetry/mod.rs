//! What the host tells of itself, while it runs and at its end.

mod log;
mod progress;
mod verdict;
