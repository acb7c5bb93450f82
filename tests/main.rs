//! The end-to-end tests: one folder for each promise, README.md says which. They start the command and talk to it
//! as a user's programs do.

mod cli;
mod container;
mod delivery;
mod memory;
mod plugin;
mod sandbox;
mod sources;
mod telemetry;
