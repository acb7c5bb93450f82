//! The sandbox of one decoder instance: a store with the limits of memory and CPU time.

use wasmtime::component::{ComponentExportIndex, Instance, TypedFunc};
use wasmtime::{CallHook, Store, StoreContextMut, UpdateDeadline};

use crate::call::host_state::{HostState, LogContext};
use crate::sandbox::call_time::thread_cpu_time;
use crate::sandbox::limits::Limits;

/// Number of resource handles that an instance may have. A decoder makes one: its stream.
const MAX_HANDLES: usize = 10_000;
/// Bytes that a function of the decoder may return: options, or the text of an error.
pub(crate) const MAX_RETURNED_BYTES: usize = 8 << 20;

/// A new store with its limits, ready for the call that makes the instance.
pub(crate) fn new_store(
    engine: &wasmtime::Engine,
    context: LogContext,
    limits: &Limits,
) -> Store<HostState> {
    let mut store = Store::new(engine, HostState::new(context, limits));
    store.limiter(|state| &mut state.limiter);
    store.call_hook(|store, transition| {
        limit_returned(store, transition, MAX_RETURNED_BYTES);
        Ok(())
    });
    store.epoch_deadline_callback(|mut store| {
        let now = thread_cpu_time()?;
        let next = store.data_mut().account.tick(now);
        Ok(next.map_or(UpdateDeadline::Interrupt, UpdateDeadline::Continue))
    });
    store.set_max_component_handles(MAX_HANDLES);
    // Only an engine that counts instructions accepts fuel. The amount is unlimited: it is only
    // counted.
    let _ = store.set_fuel(u64::MAX);
    begin_call(&mut store, 0);
    store
}

/// Limits what Wasmtime copies out of the guest's memory when a function of the decoder returns: to
/// `most` bytes. The functions of the host need no such limit: they get lists and texts as
/// references to that memory, and charge what they copy.
pub(crate) fn limit_returned(
    mut store: StoreContextMut<'_, HostState>,
    transition: CallHook,
    most: usize,
) {
    match transition {
        CallHook::ReturningFromWasm => store.set_hostcall_fuel(most),
        CallHook::CallingHost => store.set_hostcall_fuel(usize::MAX),
        CallHook::CallingWasm | CallHook::ReturningFromHost => {}
    }
}

/// Restarts the limits of a call with a chunk of `chunk` bytes. It must run before each call into
/// the guest.
pub(crate) fn begin_call(store: &mut Store<HostState>, chunk: usize) {
    store.data_mut().account.begin_call(chunk);
    store.set_epoch_deadline(1);
}

/// Calls a function of the decoder that says whether it does something.
pub(crate) fn ask(
    store: &mut Store<HostState>,
    instance: &Instance,
    function: ComponentExportIndex,
) -> wasmtime::Result<bool> {
    let function: TypedFunc<(), (bool,)> = instance.get_typed_func(&mut *store, function)?;
    begin_call(store, 0);
    function.call(store, ()).map(|(answer,)| answer)
}
