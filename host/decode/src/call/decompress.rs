//! The imports `decompress` and `read`: a block of the chunk, decompressed at native speed into the
//! sandbox, and by `decompress` into the payload of the call, too.

use std::ops::Range;
use std::sync::Arc;

use pipemill_codecs::{BlockReader, Codec};
use pipemill_types::{Fault, printable};
use wasmtime::StoreContextMut;
use wasmtime::component::WasmStr;

use crate::call::decoded_records::DecodedRecords;
use crate::call::host_state::{Bytes, HostState};
use crate::call::open_block::OpenBlock;
use crate::interface::wit::pipemill::decoder::host::Decompressed;
use crate::sandbox::account::{Account, WORK_PART};

/// Largest number of bytes that one call of `decompress` returns. It limits the copies that the
/// host makes.
const MAX_PART_BYTES: u64 = 1 << 20;
/// Largest number of bytes that one call of `read` returns: a page of Parquet has 1 MiB, and then
/// some levels.
const MAX_READ_BYTES: u64 = 2 << 20;

/// The arguments of both functions: the codec, the span of the block in the chunk, and the wanted
/// part of the block's bytes.
type Wanted = (WasmStr, u64, u64, u32);
/// The same without the codec.
type Part = (u64, u64, u32);

/// Decompresses a part of a block. The outer error is a fault of the decoder; the inner error is a
/// fault of the block.
pub(crate) fn decompress(
    mut store: StoreContextMut<'_, HostState>,
    wanted: Wanted,
) -> wasmtime::Result<(Result<Decompressed, String>,)> {
    let (codec, part) = known(&store, wanted)?;
    let pass_on = |bytes: &[u8], last, decoded: &mut DecodedRecords, account: &mut Account| {
        account.charge(0, bytes.len() as u64)?;
        decoded.payload.extend_from_slice(bytes);
        Ok(Decompressed { bytes: bytes.to_vec(), last })
    };
    Ok((next_part(&mut store, codec, part, MAX_PART_BYTES, pass_on)?,))
}

/// The bytes of a block, and whether they are its last ones.
type ReadPart = (Arc<Vec<u8>>, bool);

/// As [`decompress`], but the bytes do not become a part of the payload.
pub(crate) fn read(
    mut store: StoreContextMut<'_, HostState>,
    wanted: Wanted,
) -> wasmtime::Result<(Result<ReadPart, String>,)> {
    // The memory of the last call is used again.
    let mut memory = std::mem::take(&mut store.data_mut().read_memory);
    let result = read_into(&mut store, wanted, Arc::make_mut(&mut memory));
    store.data_mut().read_memory = memory.clone();
    Ok((result?.map(|last| (memory, last)),))
}

/// Puts a part of a block into `out`. Returns whether the block ends with it.
fn read_into(
    store: &mut StoreContextMut<'_, HostState>,
    wanted: Wanted,
    out: &mut Vec<u8>,
) -> wasmtime::Result<Result<bool, String>> {
    let (codec, (span, skip, max)) = known(&*store, wanted)?;
    let state = store.data_mut();
    if let Some(block) = block_of(&state.chunk, span).filter(|_| skip == 0) {
        let left = state.account.left_to_decompress(state.decoded.payload.len(), 0);
        let most = u64::from(max).min(left).min(MAX_READ_BYTES) as usize;
        state.account.work(block.len() + most)?;
        if state.at_once.decompress(codec, block, most, out) {
            return Ok(Ok(true));
        }
    }
    next_part(store, codec, (span, skip, max), MAX_READ_BYTES, |bytes, last, _, account| {
        account.work(bytes.len())?;
        out.clear();
        out.extend_from_slice(bytes);
        Ok(last)
    })
}

/// The block that a span names, if it is in the chunk.
fn block_of(chunk: &Option<(Bytes, Range<usize>)>, span: u64) -> Option<&[u8]> {
    let (bytes, chunk) = chunk.as_ref()?;
    let (offset, length) = ((span >> 32) as usize, (span & 0xffff_ffff) as usize);
    (**bytes).as_ref()[chunk.clone()].get(offset..offset.checked_add(length)?)
}

/// Decompresses at most `most` bytes of a block, and passes them on, with whether they are the last
/// ones.
fn next_part<T>(
    store: &mut StoreContextMut<'_, HostState>,
    codec: Codec,
    (span, skip, max): Part,
    most: u64,
    pass_on: impl FnOnce(&[u8], bool, &mut DecodedRecords, &mut Account) -> wasmtime::Result<T>,
) -> wasmtime::Result<Result<T, String>> {
    let state = store.data_mut();
    if state.chunk.is_none() {
        return Err(Fault::contract("decompressed a block outside of `decode`").into());
    }
    let (offset, length) = ((span >> 32) as usize, (span & 0xffff_ffff) as usize);
    let Some(block) = block_of(&state.chunk, span) else {
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
            Err(why) => return Ok(Err(printable(&why))),
        }
    }
    let open = state.block.as_mut().ok_or_else(|| Fault::contract("no block"))?;
    let payload = state.decoded.payload.len();
    let left = account.left_to_decompress(payload, open.reader.held());
    let max = u64::from(max).min(left).min(most) as usize;
    // A pass over many bytes stays in this function, so the time limit is checked here.
    let why = match open.reader.window(skip, max, || account.work(WORK_PART).is_ok()) {
        Ok((window, last)) if last || left > 0 || payload > 0 => {
            return pass_on(window, last, &mut state.decoded, account).map(Ok);
        }
        Ok(_) => too_large(open.reader.held()),
        Err(why) => why,
    };
    state.block = None;
    Ok(Err(printable(&why)))
}

/// The codec, and the part of the block.
fn known(
    store: &StoreContextMut<'_, HostState>,
    (word, span, skip, max): Wanted,
) -> wasmtime::Result<(Codec, Part)> {
    let word = word.to_str(store)?;
    let codec = Codec::from_word(&word).ok_or_else(|| {
        let (known, word) = (Codec::ALL.map(Codec::word).join(", "), printable(&word));
        Fault::contract(format!("asked for the codec `{word}`; known are {known}"))
    });
    Ok((codec?, (span, skip, max)))
}

/// The error of a block that holds `held` bytes of memory, which is more than the limit.
fn too_large(held: u64) -> String {
    format!("to decompress the block takes {held} bytes of memory; raise `limits.output`")
}
