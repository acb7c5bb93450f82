//! Errors of a channel: `failure` is a fault with its position, `policy` decides what is skipped,
//! and `quarantine` keeps the skipped bytes.

pub mod failure;
pub mod policy;
pub mod quarantine;
