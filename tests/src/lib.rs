//! What the end-to-end tests share: inputs of each format, hosts as processes, consumers.

pub mod inputs;
