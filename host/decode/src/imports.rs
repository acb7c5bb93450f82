//! The functions of the host that a decoder may call.
//!
//! They are defined by hand, because the generated ones would copy: here a list that a decoder
//! passes is read in the decoder's memory, during the call and never later.

use pipemill_types::Fault;
use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, WasmList};

use super::decoded_records::EmitCall;
use super::decompress::decompress;
use super::host_state::HostState;
use super::interface::wit::pipemill::decoder::types;
use super::interface::{INTERFACE, INTERFACE_VERSION};

/// Defines the functions of the interface in `linker`.
pub(super) fn link(linker: &mut Linker<HostState>) -> wasmtime::Result<()> {
    linker.instance(&format!("{INTERFACE}/types@{INTERFACE_VERSION}"))?;
    let mut host = linker.instance(&format!("{INTERFACE}/host@{INTERFACE_VERSION}"))?;
    host.func_wrap(
        "log",
        |mut store: StoreContextMut<'_, HostState>, (level, message): (types::Level, String)| {
            store.data_mut().log(level, &message);
            Ok(())
        },
    )?;
    host.func_wrap(
        "set-schema",
        |mut store: StoreContextMut<'_, HostState>, (fields,): (Vec<types::Field>,)| {
            Ok(store.data_mut().set_schema(fields)?)
        },
    )?;
    host.func_wrap(
        "set-metadata",
        |mut store: StoreContextMut<'_, HostState>, (key, value): (String, String)| {
            Ok(store.data_mut().set_metadata(key, value)?)
        },
    )?;
    host.func_wrap("emit", emit)?;
    host.func_wrap(
        "bad",
        |mut store: StoreContextMut<'_, HostState>, (offset, end, why): (u32, u32, String)| {
            Ok((store.data_mut().bad(offset, end, &why)?,))
        },
    )?;
    host.func_wrap(
        "check-crc32c",
        |store: StoreContextMut<'_, HostState>, lists: ChecksumLists| {
            check_crc(store, lists, crc32c::crc32c)
        },
    )?;
    host.func_wrap(
        "check-crc32",
        |store: StoreContextMut<'_, HostState>, lists: ChecksumLists| {
            check_crc(store, lists, crc32fast::hash)
        },
    )?;
    host.func_wrap("decompress", decompress)?;
    Ok(())
}

/// Number, spans, payload and starts of the records that a decoder emits.
type EmittedLists = (u32, WasmList<u64>, WasmList<u8>, WasmList<u32>);

/// Takes records of the running call of `decode`, and checks them.
fn emit(
    mut store: StoreContextMut<'_, HostState>,
    (records, spans, payload, starts): EmittedLists,
) -> wasmtime::Result<()> {
    let state = store.data_mut();
    let Some((bytes, range)) = state.chunk.clone() else {
        return Err(Fault::contract("emitted records outside of `decode`").into());
    };
    if state.schema.is_none() {
        return Err(Fault::contract("emitted records before it declared its schema").into());
    }
    state.check_not_ended()?;
    let (wants_starts, max_output) = (state.wants_starts, state.max_output);
    let mut decoded = std::mem::take(&mut state.decoded);
    let emitted = EmitCall {
        records: records as usize,
        spans: spans.as_le_slice(&store),
        payload: payload.as_le_slice(&store),
        starts: starts.as_le_slice(&store),
    };
    let chunk = &(*bytes).as_ref()[range];
    let result = decoded.append(chunk, emitted, wants_starts, max_output);
    store.data_mut().decoded = decoded;
    Ok(result?)
}

/// Spans and the expected checksum of each.
type ChecksumLists = (WasmList<u64>, WasmList<u32>);

/// Compares the checksum of each span with the expected one. Returns the index of the first span
/// that differs.
fn check_crc(
    store: StoreContextMut<'_, HostState>,
    (spans, expected): ChecksumLists,
    checksum: fn(&[u8]) -> u32,
) -> wasmtime::Result<(Option<u32>,)> {
    let Some((bytes, range)) = &store.data().chunk else {
        return Err(Fault::contract("asked for checksums outside of `decode`").into());
    };
    let chunk = &(**bytes).as_ref()[range.clone()];
    let payload = &*store.data().decoded.payload;
    let (spans, expected) = (spans.as_le_slice(&store), expected.as_le_slice(&store));
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
        if checksum(bytes) != *expected {
            return Ok((Some(index as u32),));
        }
    }
    Ok((None,))
}
