//! What a decoder may use, and how it is counted and bounded.
//!
//! `limits` holds the limits of a channel, `account` what a decoder lets the host allocate and
//! compute, `call_time` and `call_profiler` how long its calls take, `log_budget` how much it may
//! log. `guest_memory` is its memory, `settings` how the engine runs it.

pub mod account;
pub mod call_profiler;
pub mod call_time;
pub mod guest_memory;
pub mod limits;
pub mod log_budget;
pub mod settings;
