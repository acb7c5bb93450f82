//! Nothing but dependencies: `Cargo.toml` says why.
