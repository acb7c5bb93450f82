//! The decoder through its public interface: in all ways to cut an input, against two other readers,
//! and word by word where a person reads.

mod crate_csv;
mod dense;
mod differences;
mod files;
mod inputs;
mod messages;
mod options;
mod python;
mod real_files;
mod splits;
mod vectors;
