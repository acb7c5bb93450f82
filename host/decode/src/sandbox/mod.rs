//! The resources that a decoder may use, and how they are counted and limited.
//!
//! `limits` holds the limits of a channel, `account` counts the memory and the work that a decoder
//! causes in the host, `call_time` and `call_profiler` measure its calls, `log_budget` limits its
//! log. `guest_memory` is its memory, `input_buffer` and `input_pieces` memory that its
//! window can show, `memory_image` the content with which it may begin, `settings` are the engine's
//! settings.

pub mod account;
pub mod call_profiler;
pub mod call_time;
pub mod guest_memory;
pub mod input_buffer;
pub mod input_pieces;
pub mod limits;
pub mod log_budget;
pub mod memory_image;
pub mod settings;
