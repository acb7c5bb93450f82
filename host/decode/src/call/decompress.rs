//! The import `decompress`: a block of the chunk, decompressed at native speed into the payload of
//! the call and into the sandbox.

use pipemill_codecs::{BlockReader, Codec};
use pipemill_types::{Fault, printable};
use wasmtime::StoreContextMut;
use wasmtime::component::WasmStr;

use crate::call::host_state::HostState;
use crate::call::open_block::OpenBlock;
use crate::interface::wit::pipemill::decoder::host::Decompressed;
use crate::sandbox::account::WORK_PART;

/// Largest number of bytes that one call decompresses. It limits the copies that the host makes.
const MAX_PART_BYTES: u64 = 1 << 20;

/// Decompresses a part of a block. The outer error is a fault of the decoder; the inner error is a
/// fault of the block.
pub(crate) fn decompress(
    mut store: StoreContextMut<'_, HostState>,
    (codec, span, skip, max): (WasmStr, u64, u64, u32),
) -> wasmtime::Result<(Result<Decompressed, String>,)> {
    let codec = known_codec(&codec.to_str(&store)?)?;
    let state = store.data_mut();
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
    let is_open = state.block.as_ref().is_some_and(|open| {
        open.codec == codec && open.range == range && open.reader.can_go_on_at(skip)
    });
    let account = &mut state.account;
    if !is_open {
        state.block = None;
        // A block without parts is not copied. It is decompressed at once, to at most this many
        // bytes.
        let max = account.max_block();
        let reader = if !codec.is_whole() && length as u64 > max {
            Err(too_large(length as u64))
        } else {
            BlockReader::new(codec, block, max)
        };
        match reader {
            Ok(reader) => state.block = Some(OpenBlock { codec, range, reader }),
            Err(why) => return Ok((Err(printable(&why)),)),
        }
    }
    let open = state.block.as_mut().ok_or_else(|| Fault::contract("no block"))?;
    let payload = state.decoded.payload.len();
    let left = account.left_to_decompress(payload, open.reader.held());
    let max = u64::from(max).min(left).min(MAX_PART_BYTES) as usize;
    // A pass over many bytes stays in this function, so the time limit is checked here.
    let part = match open.reader.window(skip, max, || account.work(WORK_PART).is_ok()) {
        Ok((window, last)) if last || left > 0 || payload > 0 => Ok((window.to_vec(), last)),
        Ok(_) => Err(too_large(open.reader.held())),
        Err(why) => Err(why),
    };
    match part {
        Ok((bytes, last)) => {
            account.charge(0, bytes.len() as u64)?;
            state.decoded.payload.extend_from_slice(&bytes);
            Ok((Ok(Decompressed { bytes, last }),))
        }
        Err(why) => {
            state.block = None;
            Ok((Err(printable(&why)),))
        }
    }
}

fn known_codec(word: &str) -> Result<Codec, Fault> {
    Codec::from_word(word).ok_or_else(|| {
        let known = Codec::ALL.map(Codec::word).join(", ");
        Fault::contract(format!("asked for the codec `{}`; known are {known}", printable(word)))
    })
}

/// The error of a block that holds `held` bytes of memory, which is more than the limit.
fn too_large(held: u64) -> String {
    format!("to decompress the block takes {held} bytes of memory; raise `limits.output`")
}
