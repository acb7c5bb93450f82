//! A decoder that comes with the binary.

use std::borrow::Cow;
use std::io::{self, Read, Write};

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
    /// zstd. The machine code of the first of all built-in decoders is the dictionary of all
    /// others, because they have much code in common. If it is empty, the decoder is compiled on
    /// first use.
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

/// The highest level of zstd that needs no more memory for decompressing. Decompressing the largest
/// module takes about a millisecond.
const COMPRESSION_LEVEL: i32 = 19;

/// Compresses a module or machine code in the form that a [`Builtin`] has it.
pub(super) fn pack(bytes: &[u8], dictionary: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = zstd::Encoder::with_dictionary(Vec::new(), COMPRESSION_LEVEL, dictionary)?;
    // With another dictionary, other bytes would come out. Nobody must run them.
    encoder.include_checksum(true)?;
    encoder.set_pledged_src_size(Some(bytes.len() as u64))?;
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// The opposite of [`pack`].
pub(super) fn unpack(packed: &[u8], dictionary: &[u8]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    zstd::Decoder::with_dictionary(packed, dictionary)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The machine code of one of `all` decoders.
pub(super) fn machine_code_of(builtin: &Builtin, all: &[Builtin]) -> io::Result<Vec<u8>> {
    let dictionary = match all.first() {
        Some(first) if first.name != builtin.name => unpack(first.code, &[])?,
        _ => Vec::new(),
    };
    unpack(builtin.code, &dictionary)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn builtin(name: &'static str, code: &'static [u8]) -> Builtin {
        Builtin { name, about: "", records_version: 1, plans: false, wasm: &[], code }
    }

    proptest! {
        #[test]
        fn machine_code_comes_out_as_it_was_and_with_another_dictionary_not_at_all(
            first: Vec<u8>, rest: Vec<u8>, other: Vec<u8>
        ) {
            let code = [first.as_slice(), rest.as_slice(), first.as_slice()].concat();
            let leak = |bytes: Vec<u8>| -> &'static [u8] { bytes.leak() };
            let second = builtin("second", leak(pack(&code, &first).unwrap()));
            let all = [builtin("first", leak(pack(&first, &[]).unwrap())), second];
            prop_assert_eq!(machine_code_of(&all[0], &all).unwrap(), first);
            prop_assert_eq!(machine_code_of(&all[1], &all).unwrap(), code.clone());
            if let Ok(found) = unpack(all[1].code, &other) {
                prop_assert_eq!(found, code);
            }
        }
    }
}
