//! What a decoder that comes with the binary consists of.

/// A decoder that comes with the binary: a core module like any other plugin's, only embedded.
#[derive(Debug)]
pub struct Builtin {
    /// The name that operators use.
    pub name: &'static str,
    /// One line on what it reads.
    pub about: &'static str,
    /// The core module, as WebAssembly.
    pub wasm: &'static [u8],
    /// Machine code for `wasm`, as [`precompile`](super::precompile) makes it. Empty if there is none: then
    /// the decoder is compiled when it is first used.
    pub code: &'static [u8],
}

/// The decoders that come with a binary.
pub type Builtins = &'static [Builtin];
