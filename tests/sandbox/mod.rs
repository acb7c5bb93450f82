//! What a decoder can do, and can't. `hostile.rs` is a program of its own.

mod beside;
mod compiling;
mod instance;
mod misdeeds;
