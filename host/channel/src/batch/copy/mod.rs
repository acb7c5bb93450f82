//! Copies records into batches.
//!
//! `pieces` takes records one by one from pieces of memory. `picked` makes a batch of records that
//! were picked from others. `run` copies records that follow each other at once. `dense` makes
//! arrays of values that have a fixed size.

pub mod dense;
pub mod picked;
pub mod pieces;
pub mod run;
