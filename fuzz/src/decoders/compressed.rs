//! Decompresses blocks as the host does, up to a limit that keeps a run short.

use pipemill_codecs::BlockReader;
use pipemill_plugin::Codec;

/// Size of a window in bytes.
const WINDOW: usize = 16 << 10;
/// Largest decompressed block.
const MAX_BLOCK: usize = 1 << 20;

/// Decompresses a whole block.
pub(super) fn decompress(codec: Codec, block: &[u8]) -> Result<Vec<u8>, String> {
    let codec = pipemill_codecs::Codec::from_word(codec.word()).ok_or("an unknown codec")?;
    let mut reader = BlockReader::new(codec, block, MAX_BLOCK as u64)?;
    let mut bytes = Vec::new();
    loop {
        let (window, last) = reader.window(bytes.len() as u64, WINDOW, || true)?;
        bytes.extend_from_slice(window);
        if last {
            return Ok(bytes);
        }
        if bytes.len() > MAX_BLOCK {
            return Err("the block is larger than the fuzzer allows".to_owned());
        }
    }
}
