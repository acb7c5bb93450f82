//! Tests of the csv decoder through its public interface: any split, comparison with two other
//! readers, files by other writers, and the text of every message.

mod crate_csv;
mod dense;
mod differences;
mod files;
mod inputs;
mod learn;
mod messages;
mod options;
mod python;
mod real_files;
mod search;
mod splits;
mod vectors;
