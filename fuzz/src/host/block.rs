//! Decompression of blocks for decoders: the result does not depend on the windows in which a block
//! is read.

use pipemill_codecs::{BlockReader, Codec};

/// Largest decompressed block: it keeps a run short.
const MAX_BLOCK: usize = 1 << 20;
/// Largest number of windows of a block.
const MAX_WINDOWS: usize = 2_000;

/// The first byte selects the codec; two bytes are the size of a window, the next byte determines
/// how much of it is used.
pub(crate) fn block(bytes: &[u8]) {
    let Some(([codec, low, high, used], block)) = bytes.split_first_chunk() else { return };
    let codec = Codec::ALL[usize::from(*codec) % Codec::ALL.len()];
    let Some(whole) = read(codec, block, MAX_BLOCK, |window| window) else { return };
    let least = whole.as_ref().map_or(0, Vec::len) / MAX_WINDOWS;
    let max = usize::from(u16::from_le_bytes([*low, *high])).max(1 + 256 * least);
    let used = usize::from(*used) + 1;
    let parts = read(codec, block, max, |window| (window * used / 256).max(1));
    assert_eq!(Some(whole), parts, "the whole, then windows of {max} bytes");
}

/// Decompresses in windows: after each, reading continues `used(window)` bytes later. `None` if the
/// block is too large.
fn read(
    codec: Codec,
    block: &[u8],
    max: usize,
    used: impl Fn(usize) -> usize,
) -> Option<Result<Vec<u8>, String>> {
    let mut reader = match BlockReader::new(codec, block, MAX_BLOCK as u64) {
        Ok(reader) => reader,
        Err(why) => return Some(Err(why)),
    };
    let mut bytes = Vec::new();
    loop {
        let (window, last) = match reader.window(bytes.len() as u64, max, || true) {
            Ok(window) => window,
            Err(why) => return Some(Err(why)),
        };
        assert!(window.len() == max || last && window.len() < max, "a window of {}", window.len());
        bytes.extend_from_slice(&window[..if last { window.len() } else { used(window.len()) }]);
        if last {
            return Some(Ok(bytes));
        }
        if bytes.len() + max > MAX_BLOCK {
            return None;
        }
    }
}
