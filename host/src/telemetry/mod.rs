//! What the host says about itself while it runs.
//!
//! `log` is where its lines go, `watched` a channel as it is seen from outside, `verdict` which stage holds it back,
//! and `summary` what it did.

mod log;
mod summary;
mod verdict;
mod watched;

pub use self::log::start_log;
pub use verdict::Verdict;
pub use watched::{State, Watched};
