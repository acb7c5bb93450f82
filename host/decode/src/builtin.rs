//! The parts of a decoder that comes with the binary.

/// A decoder that comes with the binary. It is a plugin like any other, embedded as a core module.
#[derive(Debug)]
pub struct Builtin {
    /// The name that operators use.
    pub name: &'static str,
    /// One line on what it reads.
    pub about: &'static str,
    /// The core module, as WebAssembly.
    pub wasm: &'static [u8],
    /// Machine code for `wasm`, made by [`Precompiler`](super::Precompiler) and compressed with zstd.
    /// If it is empty, the decoder is compiled on first use.
    pub code: &'static [u8],
}

/// The decoders that come with a binary.
pub type Builtins = &'static [Builtin];
