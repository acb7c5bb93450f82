//! Records of an index by their numbers, in any order.
//!
//! A request is a list of record numbers, the answer a batch with these records in this order. The
//! blocks that have the records are decoded, several at once, and kept for later requests.
//!
//! - `access`: answers requests: finds the blocks, decodes the missing ones, and picks the records.
//! - `cache`: the decoded blocks that are kept, within a limit of memory.
//! - `decoded`: a decoded block, and the sink that takes it from its channel.
//! - `decoding`: decodes several blocks at once.
//! - `lent`: the memory of answers, which is used again.
//! - `numbers`: the object and the block of each record number.
//! - `picked`: the batch of an answer.
//! - `requests`: requests and answers on a socket.
//! - `spare`: memory of blocks that are not kept any more, for other blocks.
//! - `threads`: does several jobs at once.

#![forbid(unsafe_code)]

mod access;
mod cache;
mod decoded;
mod decoding;
mod lent;
mod numbers;
mod picked;
mod requests;
mod spare;
mod threads;

pub use access::{Access, AccessError, AccessLimits, Answer};
pub use decoding::MakeChannel;
pub use requests::{MAX_RECORDS, serve};
