//! Tests of the csv decoder through its public interface: any split, comparison with two other
//! readers, files by other writers, and the text of every message.

mod crate_csv;
mod dense;
mod differences;
mod files;
mod header_guess;
mod hints;
mod inputs;
mod learn;
mod messages;
mod objects;
mod options;
mod python;
mod quotes;
mod real_files;
mod search;
mod splits;
mod vectors;
