//! The import `decompress`: a block of the chunk, decompressed at native speed into the payload of
//! the call and into the sandbox.

use std::ops::Range;

use pipemill_codecs::{BlockReader, Codec};
use pipemill_types::{Fault, printable};
use wasmtime::StoreContextMut;

use super::call_time::thread_cpu_time;
use super::host_state::HostState;
use super::interface::wit::pipemill::decoder::host::Decompressed;

/// Bytes that one call decompresses at most. It bounds the copies that the host makes.
const MAX_PART_BYTES: u64 = 1 << 20;

/// A block that a decoder has decompressed a part of. It lives until the decoder begins another
/// one, or ends a call without asking for more of the chunk.
pub(super) struct OpenBlock {
    codec: Codec,
    /// Where the block lies in the chunk.
    range: Range<usize>,
    reader: BlockReader,
}

impl OpenBlock {
    /// The same block, in the chunk without its first `consumed` bytes. `None` if it begins before.
    pub(super) fn after(mut self, consumed: usize) -> Option<Self> {
        let start = self.range.start.checked_sub(consumed)?;
        self.range = start..self.range.end - consumed;
        Some(self)
    }
}

/// Decompresses a part of a block. A fault is the decoder's; the inner error is the block's.
pub(super) fn decompress(
    mut store: StoreContextMut<'_, HostState>,
    (codec, span, skip, max): (String, u64, u64, u32),
) -> wasmtime::Result<(Result<Decompressed, String>,)> {
    let state = store.data_mut();
    let codec = Codec::from_word(&codec).ok_or_else(|| {
        let known = Codec::ALL.map(Codec::word).join(", ");
        Fault::contract(format!("asked for the codec `{}`; known are {known}", printable(&codec)))
    })?;
    let Some((bytes, chunk)) = &state.chunk else {
        return Err(Fault::contract("decompressed a block outside of `decode`").into());
    };
    let (offset, length) = ((span >> 32) as usize, (span & 0xffff_ffff) as usize);
    let chunk = &(**bytes).as_ref()[chunk.clone()];
    let Some(block) = chunk.get(offset..offset.saturating_add(length)) else {
        let message = format!("asked to decompress a block at {offset}, outside its chunk");
        return Err(Fault::contract(message).into());
    };
    let range = offset..offset + length;
    // The other half is for the spans of the records.
    let free = (state.max_output / 2).saturating_sub(state.decoded.payload.len() as u64);
    let max = u64::from(max).min(free).min(MAX_PART_BYTES) as usize;
    let is_open = state.block.as_ref().is_some_and(|open| {
        open.codec == codec && open.range == range && open.reader.can_go_on_at(skip)
    });
    if !is_open {
        state.block = None;
        match BlockReader::new(codec, block.to_vec(), state.max_output) {
            Ok(reader) => state.block = Some(OpenBlock { codec, range, reader }),
            Err(why) => return Ok((Err(printable(&why)),)),
        }
    }
    let call_time = &mut state.call_time;
    // A pass over many bytes stays in this function, so the limit is checked here.
    let go_on = || thread_cpu_time().is_ok_and(|now| call_time.tick(now).is_some());
    let open = state.block.as_mut().ok_or_else(|| Fault::contract("no block"))?;
    match open.reader.window(skip, max, go_on) {
        Ok((window, last)) => {
            state.decoded.payload.extend_from_slice(window);
            Ok((Ok(Decompressed { bytes: window.to_vec(), last }),))
        }
        Err(why) => {
            state.block = None;
            Ok((Err(printable(&why)),))
        }
    }
}
