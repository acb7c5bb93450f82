//! Copies records into batches.
//!
//! `pieces` takes records one by one from pieces of memory. `picked` makes a batch of records that
//! were picked from others. `run` copies records that follow each other, at once if their values
//! are close together, otherwise `by_field`. `dense` makes arrays of values that have a fixed size.

pub mod by_field;
pub mod dense;
pub mod picked;
pub mod pieces;
pub mod run;
