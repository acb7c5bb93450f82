//! A decoder that comes with the binary.

use std::borrow::Cow;

/// A decoder that comes with the binary. It is a plugin like any other, embedded as a core module.
#[derive(Debug)]
pub struct Builtin {
    /// The name that operators use.
    pub name: &'static str,
    /// One line that says what it reads.
    pub about: &'static str,
    /// This number grows when its records, its fields, or the parts of its plans change for the
    /// same input. States and indexes name it.
    pub records_version: u32,
    /// Whether it makes plans of objects.
    pub plans: bool,
    /// The core module: plain WebAssembly, or compressed with zstd if `code` is set.
    pub wasm: &'static [u8],
    /// Machine code for `wasm`, made by [`Precompiler`](crate::Precompiler) and compressed with
    /// zstd. If it is empty, the decoder is compiled on first use.
    pub code: &'static [u8],
}

impl Builtin {
    /// The core module, as WebAssembly.
    ///
    /// # Panics
    /// The bytes in the binary can't be decompressed, so the binary is damaged.
    pub fn module(&self) -> Cow<'static, [u8]> {
        if self.code.is_empty() {
            return Cow::Borrowed(self.wasm);
        }
        Cow::Owned(zstd::decode_all(self.wasm).expect("what was compressed for the binary"))
    }
}

/// The decoders that come with a binary.
pub type Builtins = &'static [Builtin];
