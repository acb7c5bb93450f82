//! Copies records into batches.
//!
//! `pieces` are records in pieces of memory, which are taken one by one; `picked` are those that
//! were taken out of others and become a batch; `run` copies records that follow each other at
//! once; `dense` makes arrays of values that have a fixed size.

pub mod dense;
pub mod picked;
pub mod pieces;
pub mod run;
