//! The four functions of the host that a decoder may call.
//!
//! They are defined by hand, because the generated ones would copy: here a list that a decoder
//! passes is read in the decoder's memory, during the call and never later.

use pipemill_types::Fault;
use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, WasmList};

use super::decoded_records::EmitCall;
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
    host.func_wrap("emit", emit)?;
    host.func_wrap("check-crc32c", check_crc32c)?;
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
    let Some((_, range)) = &state.chunk else {
        return Err(Fault::contract("emitted records outside of `decode`").into());
    };
    if state.schema.is_none() {
        return Err(Fault::contract("emitted records before it declared its schema").into());
    }
    let (chunk, wants_starts, max_output) = (range.len(), state.wants_starts, state.max_output);
    let mut decoded = std::mem::take(&mut state.decoded);
    let emitted = EmitCall {
        records: records as usize,
        spans: spans.as_le_slice(&store),
        payload: payload.as_le_slice(&store),
        starts: starts.as_le_slice(&store),
    };
    let result = decoded.append(chunk, emitted, wants_starts, max_output);
    store.data_mut().decoded = decoded;
    Ok(result?)
}

/// Compares the CRC-32C of each span of the chunk with the expected one. Returns the index of the
/// first span that differs.
fn check_crc32c(
    store: StoreContextMut<'_, HostState>,
    (spans, expected): (WasmList<u64>, WasmList<u32>),
) -> wasmtime::Result<(Option<u32>,)> {
    let Some((bytes, range)) = &store.data().chunk else {
        return Err(Fault::contract("asked for checksums outside of `decode`").into());
    };
    let chunk = &(**bytes).as_ref()[range.clone()];
    let (spans, expected) = (spans.as_le_slice(&store), expected.as_le_slice(&store));
    if spans.len() != expected.len() {
        let (spans, expected) = (spans.len(), expected.len());
        let message = format!("asked for {spans} checksums but expects {expected}");
        return Err(Fault::contract(message).into());
    }
    for (index, (span, expected)) in spans.iter().zip(expected).enumerate() {
        let (offset, length) = ((span >> 32) as usize, (span & 0xffff_ffff) as usize);
        let Some(bytes) = chunk.get(offset..offset.saturating_add(length)) else {
            let message =
                format!("asked for the checksum of a span at {offset}, outside its chunk");
            return Err(Fault::contract(message).into());
        };
        if crc32c::crc32c(bytes) != *expected {
            return Ok((Some(index as u32),));
        }
    }
    Ok((None,))
}
