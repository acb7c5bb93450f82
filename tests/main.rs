//! The end-to-end tests: one folder for each promise, README.md says which. These start the command and talk to it
//! as a user's programs do. Those of a promise's tests that use the host as a library are programs of their own:
//! `sandbox/hostile.rs`, `sources/s3`, `splits`.

mod cli;
mod container;
mod delivery;
mod memory;
mod plugin;
mod sandbox;
mod sources;
mod telemetry;
