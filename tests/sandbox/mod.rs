//! What a decoder can do, and can't. `hostile.rs` is a program of its own.

mod compiling;
mod good_channel;
mod instance;
mod misdeeds;
