//! The state between two blocks of deflate data: it is taken from the inflater and its window, and
//! an inflater begins with it.

use miniz_oxide::inflate::core::inflate_flags::TINFL_FLAG_STOP_ON_BLOCK_BOUNDARY;
use miniz_oxide::inflate::core::{BlockBoundaryState, DecompressorOxide};

use crate::seek_point::{BlockStart, WINDOW};

/// The inflater's flag to return at each boundary of two blocks.
pub(crate) const STOP_AT_BLOCKS: u32 = TINFL_FLAG_STOP_ON_BLOCK_BOUNDARY;

/// The state of an inflater that has stopped between two blocks. `window` is its ring buffer, which
/// ends at `end`; the stream has written `before` bytes to it. `compress` gets the window in two
/// pieces. `None` if there is no memory for it.
pub(crate) fn block_start(
    inflater: &DecompressorOxide,
    window: &[u8],
    end: usize,
    before: u64,
    compress: impl FnOnce([&[u8]; 2]) -> Option<Box<[u8]>>,
) -> Option<BlockStart> {
    let state = inflater.block_boundary_state()?;
    let length = before.min(WINDOW as u64) as usize;
    let earlier = length.saturating_sub(end);
    let pieces = [&window[WINDOW - earlier..], &window[end - (length - earlier)..end]];
    Some(BlockStart {
        bit_count: state.num_bits,
        bits: state.bit_buf,
        checksum: state.check_adler32,
        size: 0,
        window_len: length as u32,
        window: compress(pieces)?,
    })
}

/// An inflater that begins between two blocks. `window` is its ring buffer, whose next byte is the
/// first.
pub(crate) fn restart(block: &BlockStart, window: &mut [u8]) -> Result<DecompressorOxide, String> {
    block.restore_window(window)?;
    Ok(DecompressorOxide::from_block_boundary_state(&BlockBoundaryState {
        num_bits: block.bit_count,
        bit_buf: block.bits,
        check_adler32: block.checksum,
        ..BlockBoundaryState::default()
    }))
}
