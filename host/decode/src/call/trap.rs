//! The fault of a call into a decoder that did not return.

use pipemill_types::{ErrorKind, Fault};
use wasmtime::{FrameInfo, Trap, WasmBacktrace};

use crate::call::host_state::HostState;
use crate::compile::function_names::function_name;
use crate::sandbox::limits::Limits;

/// Number of stack frames of the guest that an error shows.
const MAX_FRAMES: usize = 6;
/// Number of stack frames whose names are read. A name of a few bytes can expand to a text of a
/// megabyte.
const MAX_DEMANGLED: usize = 100;

/// The fault of a call that trapped, in the operator's terms.
pub(crate) fn explain(error: &wasmtime::Error, state: &HostState, limits: &Limits) -> Fault {
    if let Some(fault) = error.downcast_ref::<Fault>() {
        return fault.clone();
    }
    if let Some(wanted) = state.limiter.refused {
        let limit = limits.memory;
        return Fault::new(
            ErrorKind::Limit,
            format!(
                "the decoder wanted {wanted} bytes of memory; its limit is {limit}{}",
                in_force(limits)
            ),
            "raise `limits.memory`, or lower `max_record`",
        );
    }
    let (frames, in_force) = (frames(error), in_force(limits));
    match error.downcast_ref::<Trap>() {
        Some(Trap::Interrupt) => Fault::new(
            ErrorKind::Limit,
            format!(
                "the decoder used more than {:?} of CPU time in one call{frames}{in_force}",
                limits.call_timeout
            ),
            "raise `limits.call_timeout` if it is only slow; else tell its author",
        ),
        Some(Trap::StackOverflow) => Fault::new(
            ErrorKind::Plugin,
            format!("the decoder's call stack overflowed{frames}{in_force}"),
            "this is a bug in the decoder; tell its author",
        ),
        trap => {
            let reason = match (&state.last_error, trap) {
                (Some(text), _) => text.clone(),
                (None, Some(trap)) => trap.to_string(),
                (None, None) => format!("{error:#}"),
            };
            Fault::new(
                ErrorKind::Plugin,
                format!("the decoder failed: {reason}{frames}{in_force}"),
                "this is a bug in the decoder; tell its author",
            )
        }
    }
}

/// The limits of the instance, as a suffix of an error's message.
fn in_force(limits: &Limits) -> String {
    let Limits { memory, call_timeout, output, .. } = limits;
    format!(
        " [limits: memory {memory} bytes, CPU time {call_timeout:?} a call, output {output} bytes \
         a call]"
    )
}

/// The guest's stack as function names, innermost first. Functions that only carry out a panic are
/// left out; a recursive function is named once, with the number of its calls.
fn frames(error: &wasmtime::Error) -> String {
    let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() else { return String::new() };
    let is_same = |one: &FrameInfo, next: &FrameInfo| {
        (one.func_index(), one.func_name()) == (next.func_index(), next.func_name())
    };
    let calls = backtrace.frames().chunk_by(is_same);
    let mut names: Vec<(String, usize)> = Vec::new();
    for calls in calls.take(MAX_DEMANGLED) {
        let name = match calls[0].func_name() {
            Some(name) => function_name(name),
            None => format!("function {}", calls[0].func_index()),
        };
        let count = names.len();
        match names.last_mut() {
            _ if PANIC_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) => {}
            Some((last, times)) if *last == name => *times += calls.len(),
            _ if count == MAX_FRAMES => break,
            _ => names.push((name, calls.len())),
        }
    }
    let show = |(name, times): &(String, usize)| match times {
        1 => name.clone(),
        times => format!("{name} ({times} times)"),
    };
    let names: Vec<_> = names.iter().map(show).collect();
    if names.is_empty() { String::new() } else { format!(" (in {})", names.join(" < ")) }
}

/// Prefixes of the names of the functions that Rust runs between a panic and the trap.
const PANIC_PREFIXES: [&str; 6] = [
    "__rustc",
    "rust_",
    "std::panicking",
    "core::panicking",
    "std::sys::backtrace",
    "std::process",
];
