//! Batches of a fixed size that several threads fill.
//!
//! **Plan**: the channel's thread decides which records go into which batch, from their numbers
//! alone, and takes the memory of each batch. It reads no values and writes no index. The exception
//! is a copy of a few bytes, which is cheaper than to wake a thread for it.
//!
//! **Copies**: each batch is a job (`job`) in a queue (`queue`): whichever thread is free copies
//! its records, makes arrays of values of a fixed size, and writes the index. Several batches are
//! filled at once, each by one thread at a time. The workers take jobs between their portions, and
//! while they wait. One more thread, the copier, does nothing else: so a batch never waits until a
//! worker has decoded something.
//!
//! **Large batches**: after one that did not fit a slot, batches get dedicated buffers. Several of
//! these are filled at once if the sink has memory for later ones.
//!
//! **Order**: batches are handed over in the order of the plan, whichever is filled first
//! (`filler`).
//!
//! **Memory**: portions (`portion`) that wait to be copied may take a part of the workers' memory.
//! A batch that is larger than that is filled in parts.

pub(crate) mod filler;
pub(crate) mod job;
pub(super) mod portion;
pub(super) mod queue;
