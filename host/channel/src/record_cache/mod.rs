//! The cache of records: what the decoder has made of an object, or of a block of one, is stored,
//! and the next time it takes the place of the bytes and of the decoder.
//!
//! A call of the decoder is stored with all that it did: its records, how far it came, and whether
//! decoding can begin again there. So batches, positions and states are those of a decoder that
//! decodes. What was decoded with an error that was skipped is not stored: the error is to be
//! counted again.
//!
//! If something in the cache is damaged, the object is decoded from its start, and the records that
//! came from the cache already are dropped.
//!
//! - `identity`: all that the records of an object depend on.
//! - `index`: what is stored of a call, except for the bytes of its records.
//! - `recorder`: stores the calls of a decoder.
//! - `replay`: takes stored calls in place of a decoder's.

mod identity;
mod index;
mod recorder;
mod replay;

pub(crate) use identity::{id_of, is_cached};
pub(crate) use index::Mark;
pub(crate) use recorder::Recorder;
pub(crate) use replay::{Replay, Replayed};
