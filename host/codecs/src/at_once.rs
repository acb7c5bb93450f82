//! Blocks that a library decompresses in one call, into memory that is used again.

use zstd::bulk::Decompressor;
use zstd::zstd_safe::{find_frame_compressed_size, get_frame_content_size};

use crate::Codec;

/// The bit of a Zstandard frame's descriptor (its fifth byte) that says that the frame has no
/// window: its content is as large as its memory.
const SINGLE_SEGMENT: u8 = 1 << 5;

/// Decompresses blocks in one call of a library each.
#[derive(Default)]
pub struct AtOnce {
    zstd: Option<Decompressor<'static>>,
}

impl AtOnce {
    /// Puts the decompressed block into `out`, if it has at most `max` bytes and there is a library
    /// that does it in one call. Returns whether it did. If not, `out` has no meaning, and
    /// [`BlockReader`](crate::BlockReader) decompresses the block, or says what is wrong with it.
    pub fn decompress(
        &mut self,
        codec: Codec,
        block: &[u8],
        max: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        match codec {
            Codec::Snappy => snappy(block, max, out),
            Codec::Lz4Block => lz4(block, max, out),
            Codec::Zstd => self.zstd(block, max, out),
            Codec::Deflate | Codec::Zlib | Codec::Gzip | Codec::Lz4 | Codec::Brotli => false,
        }
    }

    /// A block of one frame that says its size and needs no window: small ones are like that.
    fn zstd(&mut self, block: &[u8], max: usize, out: &mut Vec<u8>) -> bool {
        let is_one = find_frame_compressed_size(block).is_ok_and(|size| size == block.len());
        let is_segment = block.get(4).is_some_and(|descriptor| descriptor & SINGLE_SEGMENT != 0);
        let size = get_frame_content_size(block).ok().flatten();
        let Some(size) = size.and_then(|size| usize::try_from(size).ok()) else { return false };
        if !is_one || !is_segment || size > max {
            return false;
        }
        if self.zstd.is_none() {
            self.zstd = Decompressor::new().ok();
        }
        let Some(decompressor) = &mut self.zstd else { return false };
        out.resize(size, 0);
        decompressor.decompress_to_buffer(block, &mut out[..]).is_ok_and(|found| found == size)
    }
}

fn snappy(block: &[u8], max: usize, out: &mut Vec<u8>) -> bool {
    let Ok(size) = snap::raw::decompress_len(block) else { return false };
    if size > max {
        return false;
    }
    out.resize(size, 0);
    snap::raw::Decoder::new().decompress(block, out).is_ok_and(|found| found == size)
}

fn lz4(block: &[u8], max: usize, out: &mut Vec<u8>) -> bool {
    out.resize(max, 0);
    let Ok(size) = lz4_flex::block::decompress_into(block, out) else { return false };
    out.truncate(size);
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::BlockReader;

    /// Bytes that can be compressed.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let run = (any::<u8>(), 1_usize..200).prop_map(|(byte, count)| vec![byte; count]);
        prop::collection::vec(run, 1..20).prop_map(|runs| runs.concat())
    }

    fn compressed(codec: Codec, bytes: &[u8]) -> Vec<u8> {
        match codec {
            Codec::Snappy => snap::raw::Encoder::new().compress_vec(bytes).expect("compresses"),
            Codec::Lz4Block => lz4_flex::block::compress(bytes),
            _ => zstd::bulk::compress(bytes, 3).expect("compresses"),
        }
    }

    /// A codec, bytes, the most that are decompressed, and the place and value of a wrong byte.
    fn block() -> impl Strategy<Value = (Codec, Vec<u8>, usize, Option<(prop::sample::Index, u8)>)>
    {
        let codec = prop::sample::select(vec![Codec::Snappy, Codec::Lz4Block, Codec::Zstd]);
        (codec, bytes(), 0_usize..4_000, any::<Option<(prop::sample::Index, u8)>>())
    }

    proptest! {
        /// Whatever the block is, and what was decompressed before: it is done at once or not, and
        /// never with another result.
        #[test]
        fn the_bytes_are_those_of_the_reader(blocks in prop::collection::vec(block(), 1..4)) {
            let (mut at_once, mut out) = (AtOnce::default(), Vec::new());
            for (codec, bytes, max, damage) in blocks {
                let mut block = compressed(codec, &bytes);
                if let Some((place, byte)) = damage {
                    let place = place.index(block.len());
                    block[place] = byte;
                }
                let mut reader = BlockReader::new(codec, &block, 1 << 20);
                let whole = match &mut reader {
                    Ok(reader) => reader.window(0, 1 << 20, || true).map_err(|why| why.clone()),
                    Err(why) => Err(why.clone()),
                };
                let is_done = at_once.decompress(codec, &block, max, &mut out);
                if let Ok((whole, true)) = whole {
                    prop_assert!(!is_done || out == whole);
                    prop_assert!(damage.is_some() || is_done == (whole.len() <= max));
                }
                prop_assert!(!is_done || out.len() <= max);
            }
        }
    }
}
