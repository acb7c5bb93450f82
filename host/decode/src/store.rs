//! The sandbox of one decoder instance: a store with the limits of memory and CPU time.

use wasmtime::{Store, UpdateDeadline};

use super::call_time::thread_cpu_time;
use super::host_state::{HostState, LogContext};
use super::limits::Limits;

/// Bytes that a decoder may pass in one call beyond its payload: spans, starts, messages.
const CALL_OVERHEAD: usize = 64 << 20;

/// A new store with its limits, ready for the call that makes the instance.
pub(super) fn new_store(
    engine: &wasmtime::Engine,
    context: LogContext,
    limits: &Limits,
) -> Store<HostState> {
    let mut store = Store::new(engine, HostState::new(context, limits));
    store.limiter(|state| &mut state.limiter);
    store.epoch_deadline_callback(|mut store| {
        let now = thread_cpu_time()?;
        let next = store.data_mut().call_time.tick(now);
        Ok(next.map_or(UpdateDeadline::Interrupt, UpdateDeadline::Continue))
    });
    // Bounds what the host copies out of the guest's memory in one call.
    store.set_hostcall_fuel((limits.output as usize).saturating_add(CALL_OVERHEAD));
    begin_call(&mut store);
    store
}

/// Restarts the CPU time of a call. It must run before each call into the guest.
pub(super) fn begin_call(store: &mut Store<HostState>) {
    store.data_mut().call_time.restart();
    store.set_epoch_deadline(1);
}
