//! The functions of the host that a decoder may call.
//!
//! They are defined by hand, because the generated ones would copy: these functions read a list in
//! the decoder's memory, during the call and never later.

use crc_fast::{CrcAlgorithm, Digest};
use pipemill_types::{Fault, printable};
use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, WasmList, WasmStr};

use crate::call::declared_schema::set_schema;
use crate::call::decoded_records::{ColumnSpans, EmittedColumns, EmittedRows};
use crate::call::decompress::{decompress, read, read_pieces};
use crate::call::host_state::HostState;
use crate::call::metadata::Metadata;
use crate::interface::wit::pipemill::decoder::types;
use crate::interface::{BLOCKS, COLUMNS, INTERFACE, INTERFACE_VERSION};
use crate::sandbox::account::WORK_PART;

/// Defines the functions of the interface in `linker`.
pub(crate) fn link(linker: &mut Linker<HostState>) -> wasmtime::Result<()> {
    linker.instance(&format!("{INTERFACE}/types@{INTERFACE_VERSION}"))?;
    let mut host = linker.instance(&format!("{INTERFACE}/host@{INTERFACE_VERSION}"))?;
    host.func_wrap(
        "log",
        |mut store: StoreContextMut<'_, HostState>, (level, message): (types::Level, WasmStr)| {
            let line = printable(&message.to_str(&store)?);
            store.data_mut().log(level, line);
            Ok(())
        },
    )?;
    host.func_wrap("set-schema", set_schema)?;
    host.func_wrap("set-metadata", set_metadata)?;
    host.func_wrap("emit", emit)?;
    host.func_wrap(
        "bad",
        |mut store: StoreContextMut<'_, HostState>, (offset, end, why): (u32, u32, WasmStr)| {
            let why = printable(&why.to_str(&store)?);
            Ok((store.data_mut().bad(offset, end, why)?,))
        },
    )?;
    host.func_wrap(
        "check-crc32c",
        |store: StoreContextMut<'_, HostState>, lists: ChecksumLists| {
            check_crc(store, lists, crc_fast::crc32_iscsi, crc32c_append)
        },
    )?;
    host.func_wrap(
        "check-crc32",
        |store: StoreContextMut<'_, HostState>, lists: ChecksumLists| {
            check_crc(store, lists, crc32fast::hash, crc32_append)
        },
    )?;
    host.func_wrap("decompress", decompress)?;
    let mut blocks = linker.instance(BLOCKS)?;
    blocks.func_wrap("read", read)?;
    blocks.func_wrap("read-pieces", read_pieces)?;
    linker.instance(COLUMNS)?.func_wrap("emit-columns", emit_columns)?;
    Ok(())
}

/// Receives a fact about the object.
fn set_metadata(
    mut store: StoreContextMut<'_, HostState>,
    (key, value): (WasmStr, WasmStr),
) -> wasmtime::Result<()> {
    let mut metadata = std::mem::take(&mut store.data_mut().metadata);
    let set = {
        let (key, value) = (key.to_str(&store)?, value.to_str(&store)?);
        if Metadata::is_for_host(&key) {
            metadata.set_for_host(&key, &value)
        } else {
            store.data().check_metadata().and_then(|()| metadata.set(&key, &value))
        }
    };
    store.data_mut().metadata = metadata;
    Ok(set?)
}

/// The arguments of `emit`: number, spans, payload and starts of the records.
type EmittedLists = (u32, WasmList<u64>, WasmList<u8>, WasmList<u32>);

/// Receives records of the running call of `decode`, and checks them.
fn emit(
    mut store: StoreContextMut<'_, HostState>,
    (records, spans, payload, starts): EmittedLists,
) -> wasmtime::Result<()> {
    let state = store.data_mut();
    let (bytes, range) = state.chunk_of_records()?;
    let kept_starts = if state.wants_starts { starts.len() } else { 0 };
    state.account.charge(spans.len(), payload.len() as u64 + 4 * kept_starts as u64)?;
    let wants_starts = state.wants_starts;
    let mut decoded = std::mem::take(&mut state.decoded);
    let mut account = std::mem::take(&mut state.account);
    let emitted = EmittedRows {
        records: records as usize,
        spans: spans.as_le_slice(&store),
        payload: payload.as_le_slice(&store),
        starts: starts.as_le_slice(&store),
    };
    let chunk = &(*bytes).as_ref()[range];
    let result = decoded.append(chunk, emitted, wants_starts, &mut account);
    let state = store.data_mut();
    (state.decoded, state.account) = (decoded, account);
    result
}

/// The arguments of `emit-columns`: the number of records, their columns, their payload, and the
/// place where they begin.
type EmittedColumnLists = (u32, WasmList<ColumnSpans>, WasmList<u8>, u32);

/// Receives records of the running call of `decode`, field by field, and checks them.
fn emit_columns(
    mut store: StoreContextMut<'_, HostState>,
    (records, columns, payload, start): EmittedColumnLists,
) -> wasmtime::Result<()> {
    let state = store.data_mut();
    let (bytes, range) = state.chunk_of_records()?;
    state.decoded.check_columns(columns.len())?;
    let (records, wants_starts) = (records as usize, state.wants_starts);
    let kept_starts = if wants_starts { records as u64 } else { 0 };
    let spans = records.saturating_mul(columns.len());
    state.account.charge(spans, payload.len() as u64 + 4 * kept_starts)?;
    let mut decoded = std::mem::take(&mut state.decoded);
    let mut account = std::mem::take(&mut state.account);
    let columns = columns.iter(&mut store).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let result = columns.and_then(|columns| {
        let payload = payload.as_le_slice(&store);
        let emitted = EmittedColumns { records, columns: &columns, payload, start };
        decoded.append_columns(&(*bytes).as_ref()[range], emitted, wants_starts, &mut account)
    });
    let state = store.data_mut();
    (state.decoded, state.account) = (decoded, account);
    result
}

/// Bytes that a span counts in addition to its own, as work: even an empty span takes time.
const SPAN_BYTES: usize = size_of::<u64>();

/// Spans and the expected checksum of each.
type ChecksumLists = (WasmList<u64>, WasmList<u32>);

/// The CRC-32C of bytes that have the CRC-32C `before`, continued by `bytes`.
fn crc32c_append(before: u32, bytes: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!before));
    digest.update(bytes);
    digest.finalize() as u32
}

/// The CRC-32 of gzip of bytes that have the CRC-32 `before`, continued by `bytes`.
fn crc32_append(before: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(before);
    hasher.update(bytes);
    hasher.finalize()
}

/// Compares the checksum of each span with the expected one. Returns the index of the first span
/// that differs. `whole` is the checksum of bytes, and `append` that of bytes after others.
fn check_crc(
    mut store: StoreContextMut<'_, HostState>,
    (spans, expected): ChecksumLists,
    whole: impl Fn(&[u8]) -> u32,
    append: impl Fn(u32, &[u8]) -> u32,
) -> wasmtime::Result<(Option<u32>,)> {
    let mut account = std::mem::take(&mut store.data_mut().account);
    // Spans may overlap or be empty, so both their bytes and their number count as work.
    let length = |span: &u64| span & 0xffff_ffff;
    let bytes = spans.as_le_slice(&store).iter().map(length).sum::<u64>()
        + (SPAN_BYTES * spans.len()) as u64;
    let found = if bytes <= WORK_PART as u64 {
        let charged = account.work(bytes as usize).map_err(wasmtime::Error::from);
        charged.and_then(|()| find_wrong_crc(&store, &spans, &expected, |bytes| Ok(whole(bytes))))
    } else {
        find_wrong_crc(&store, &spans, &expected, |bytes| {
            let mut found = 0;
            account.work(SPAN_BYTES)?;
            for part in bytes.chunks(WORK_PART) {
                account.work(part.len())?;
                found = append(found, part);
            }
            Ok(found)
        })
    };
    store.data_mut().account = account;
    Ok((found?,))
}

/// As [`check_crc`], with one function for the checksum of bytes.
fn find_wrong_crc(
    store: &StoreContextMut<'_, HostState>,
    spans: &WasmList<u64>,
    expected: &WasmList<u32>,
    mut checksum: impl FnMut(&[u8]) -> wasmtime::Result<u32>,
) -> wasmtime::Result<Option<u32>> {
    let Some((bytes, range)) = &store.data().chunk else {
        return Err(Fault::contract("asked for checksums outside of `decode`").into());
    };
    let chunk = &(**bytes).as_ref()[range.clone()];
    let payload = &*store.data().decoded.payload;
    let (spans, expected) = (spans.as_le_slice(store), expected.as_le_slice(store));
    if spans.len() != expected.len() {
        let (spans, expected) = (spans.len(), expected.len());
        let message = format!("asked for {spans} checksums but expects {expected}");
        return Err(Fault::contract(message).into());
    }
    for (index, (span, expected)) in spans.iter().zip(expected).enumerate() {
        let (offset, length) = (((span << 1) >> 33) as usize, (span & 0xffff_ffff) as usize);
        let (place, bytes) = if span >> 63 == 1 { ("payload", payload) } else { ("chunk", chunk) };
        let Some(bytes) = bytes.get(offset..offset.saturating_add(length)) else {
            let message =
                format!("asked for the checksum of a span at {offset}, outside its {place}");
            return Err(Fault::contract(message).into());
        };
        if checksum(bytes)? != *expected {
            return Ok(Some(index as u32));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Computes it bit by bit, as the CRC-32C is defined.
    fn crc32c(bytes: &[u8]) -> u32 {
        let bit = |crc: u32, _| crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
        !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), bit))
    }

    proptest! {
        /// The library uses another algorithm for each range of lengths.
        #[test]
        fn the_crc_of_parts_is_that_of_the_whole(
            bytes in prop_oneof![0..300usize, 0..5_000usize]
                .prop_flat_map(|most| prop::collection::vec(any::<u8>(), 0..=most)),
            cuts in prop::array::uniform2(any::<prop::sample::Index>()),
        ) {
            let expected = crc32c(&bytes);
            prop_assert_eq!(crc_fast::crc32_iscsi(&bytes), expected);
            let mut cuts = cuts.map(|cut| cut.index(bytes.len() + 1));
            cuts.sort_unstable();
            let parts = [&bytes[..cuts[0]], &bytes[cuts[0]..cuts[1]], &bytes[cuts[1]..]];
            prop_assert_eq!(parts.iter().fold(0, |crc, part| crc32c_append(crc, part)), expected);
        }
    }
}
