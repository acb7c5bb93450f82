//! The imports `decompress`, `read` and `read-pieces`: a block of the chunk, decompressed at native
//! speed into the sandbox, and by `decompress` into the payload of the call, too.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use pipemill_codecs::{BlockReader, Codec};
use pipemill_types::{Fault, printable};
use wasmtime::StoreContextMut;
use wasmtime::component::{WasmList, WasmStr};

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

/// The arguments of `decompress` and `read`: the codec, the span of the block in the chunk, and the
/// wanted part of the block's bytes.
type Wanted = (WasmStr, u64, u64, u32);

/// A part of a block.
#[derive(Clone, Copy)]
struct BlockPart<'a> {
    codec: Codec,
    /// The block's ranges in the chunk: in order, and apart.
    pieces: &'a [Range<usize>],
    /// Decompressed bytes before the part.
    skip: u64,
    /// The most bytes that it has.
    max: u32,
}

/// Decompresses a part of a block. The outer error is a fault of the decoder; the inner error is a
/// fault of the block.
pub(crate) fn decompress(
    mut store: StoreContextMut<'_, HostState>,
    (codec, span, skip, max): Wanted,
) -> wasmtime::Result<(Result<Decompressed, String>,)> {
    let codec = known_codec(&codec.to_str(&store)?)?;
    let part = BlockPart { codec, pieces: &[range(span)], skip, max };
    let part =
        next_part(store.data_mut(), part, MAX_PART_BYTES, |bytes, last, decoded, account| {
            account.charge(0, bytes.len() as u64)?;
            decoded.payload.extend_from_slice(bytes);
            Ok(Decompressed { bytes: bytes.to_vec(), last })
        })?;
    Ok((part,))
}

/// The bytes of a block, and whether they are its last ones.
type ReadPart = (Arc<Vec<u8>>, bool);

/// As [`decompress`], but the bytes do not become a part of the payload.
pub(crate) fn read(
    mut store: StoreContextMut<'_, HostState>,
    (codec, span, skip, max): Wanted,
) -> wasmtime::Result<(Result<ReadPart, String>,)> {
    let codec = known_codec(&codec.to_str(&store)?)?;
    read_part(store.data_mut(), BlockPart { codec, pieces: &[range(span)], skip, max })
}

/// The arguments of `read-pieces`: those of `read`, with the spans of the block's pieces.
type WantedOfPieces = (WasmStr, WasmList<u64>, u64, u32);

/// As [`read`], of a block that lies in several pieces of the chunk.
pub(crate) fn read_pieces(
    mut store: StoreContextMut<'_, HostState>,
    (codec, spans, skip, max): WantedOfPieces,
) -> wasmtime::Result<(Result<ReadPart, String>,)> {
    let codec = known_codec(&codec.to_str(&store)?)?;
    // The pieces are the host's memory and work.
    store.data_mut().account.work(spans.len().saturating_mul(size_of::<Range<usize>>()))?;
    let pieces: Vec<_> = spans.as_le_slice(&store).iter().copied().map(range).collect();
    if !pieces.is_sorted_by(|one, next| one.end <= next.start) {
        let message = "asked to read a block whose pieces are not in order, or overlap";
        return Err(Fault::contract(message).into());
    }
    read_part(store.data_mut(), BlockPart { codec, pieces: &pieces, skip, max })
}

fn read_part(
    state: &mut HostState,
    part: BlockPart<'_>,
) -> wasmtime::Result<(Result<ReadPart, String>,)> {
    // The memory of the last call is used again.
    let mut memory = std::mem::take(&mut state.read_memory);
    let result = read_into(state, part, Arc::make_mut(&mut memory));
    state.read_memory = memory.clone();
    Ok((result?.map(|last| (memory, last)),))
}

/// Puts a part of a block into `out`. Returns whether the block ends with it.
fn read_into(
    state: &mut HostState,
    part: BlockPart<'_>,
    out: &mut Vec<u8>,
) -> wasmtime::Result<Result<bool, String>> {
    if part.skip == 0
        && let Some(block) = block_of(&state.chunk, part.pieces)
    {
        let left = state.account.left_to_decompress(state.decoded.payload.len(), 0);
        let most = u64::from(part.max).min(left).min(MAX_READ_BYTES) as usize;
        state.account.work(block.len() + most)?;
        if state.at_once.decompress(part.codec, &block, most, out) {
            return Ok(Ok(true));
        }
    }
    next_part(state, part, MAX_READ_BYTES, |bytes, last, _, account| {
        account.work(bytes.len())?;
        out.clear();
        out.extend_from_slice(bytes);
        Ok(last)
    })
}

/// The bytes of a span.
fn range(span: u64) -> Range<usize> {
    let (offset, length) = ((span >> 32) as usize, (span & 0xffff_ffff) as usize);
    offset..offset.saturating_add(length)
}

/// The block with these pieces, if all of them are in the chunk. One piece is not copied.
fn block_of<'a>(
    chunk: &'a Option<(Bytes, Range<usize>)>,
    pieces: &[Range<usize>],
) -> Option<Cow<'a, [u8]>> {
    let (bytes, chunk) = chunk.as_ref()?;
    let chunk = &(**bytes).as_ref()[chunk.clone()];
    if let [piece] = pieces {
        return chunk.get(piece.clone()).map(Cow::Borrowed);
    }
    let pieces: Option<Vec<_>> = pieces.iter().map(|piece| chunk.get(piece.clone())).collect();
    pieces.map(|pieces| Cow::Owned(pieces.concat()))
}

/// Decompresses at most `most` bytes of a block, and passes them on, with whether they are the last
/// ones.
fn next_part<T>(
    state: &mut HostState,
    BlockPart { codec, pieces, skip, max }: BlockPart<'_>,
    most: u64,
    pass_on: impl FnOnce(&[u8], bool, &mut DecodedRecords, &mut Account) -> wasmtime::Result<T>,
) -> wasmtime::Result<Result<T, String>> {
    let Some((_, chunk)) = &state.chunk else {
        return Err(Fault::contract("decompressed a block outside of `decode`").into());
    };
    let size = chunk.len();
    if let Some(outside) = pieces.iter().find(|piece| piece.end > size) {
        let offset = outside.start;
        let message = format!("asked to decompress a block at {offset}, outside its chunk");
        return Err(Fault::contract(message).into());
    }
    let is_open = state.block.as_ref().is_some_and(|open| {
        open.codec == codec && open.pieces == pieces && open.reader.can_go_on_at(skip)
    });
    let account = &mut state.account;
    if !is_open {
        state.block = None;
        let block = block_of(&state.chunk, pieces).unwrap_or_default();
        let length = block.len();
        // A block without parts is not copied. It is decompressed at once, to at most this many
        // bytes.
        let max = account.max_block();
        let reader = if !codec.is_whole() && length as u64 > max {
            Err(too_large(length as u64))
        } else {
            BlockReader::new(codec, &block, max)
        };
        match reader {
            Ok(reader) => {
                state.block = Some(OpenBlock { codec, pieces: pieces.to_vec(), reader });
            }
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
