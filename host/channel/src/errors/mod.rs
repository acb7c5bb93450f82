//! What happens where a channel can't go on: `failure` is a fault with its position, `policy`
//! decides what is skipped, and `quarantine` keeps the bytes that were.

pub mod failure;
pub mod policy;
pub mod quarantine;
