//! One decoder at work on one stream: a fresh instance in its sandbox, called chunk by chunk.

use std::ops::Range;
use std::sync::Arc;

use pipemill_types::{ErrorKind, Fault, Field, Scalar, StreamInfo};
use wasmtime::component::ResourceAny;
use wasmtime::{Store, Trap, WasmBacktrace};

use super::Limits;
use super::call_profiler::CallProfiler;
use super::call_time::begin_call;
use super::decoded_records::DecodedRecords;
use super::imports::{Bytes, HostState, printable};
use super::plugin::Plugin;
use super::wit::DecoderPlugin;
use super::wit::exports::pipemill::decoder::decoder as exports;
use super::wit::pipemill::decoder::types;

pub use super::wit::exports::pipemill::decoder::decoder::Resume;

impl From<types::Field> for Field {
    fn from(field: types::Field) -> Self {
        let scalar = match field.scalar {
            types::Scalar::Bytes => Scalar::Bytes,
            types::Scalar::Utf8 => Scalar::Utf8,
            types::Scalar::Boolean => Scalar::Boolean,
            types::Scalar::Int32 => Scalar::Int32,
            types::Scalar::Int64 => Scalar::Int64,
            types::Scalar::Float32 => Scalar::Float32,
            types::Scalar::Float64 => Scalar::Float64,
        };
        Self { name: field.name, scalar, shape: field.shape }
    }
}

/// What a call of `decode` answered. Positions count from the start of the chunk.
#[derive(Debug, Clone)]
pub enum DecodeOutcome {
    /// It came so far.
    Progress {
        /// Bytes that are done with.
        consumed: usize,
        /// Least number of bytes, counted from there, with which it gets further; 0 if unknown.
        need: usize,
    },
    /// It met a place that it can't decode.
    Bad {
        /// Where.
        offset: usize,
        /// What was expected and what stood there.
        message: String,
        /// How it could go on.
        resume: Resume,
    },
}

/// A decoder at work.
pub struct Stream {
    store: Store<HostState>,
    bindings: DecoderPlugin,
    handle: ResourceAny,
    limits: Limits,
}

impl Stream {
    /// Opens a stream in a fresh instance.
    ///
    /// # Errors
    /// The decoder refuses its options, fails, or needs more than the limits allow.
    pub fn open(
        plugin: &Plugin,
        options: &[(String, String)],
        info: &StreamInfo,
        limits: &Limits,
    ) -> Result<Self, Fault> {
        let inner = &plugin.inner;
        let mut store = inner.store(Some(info), limits);
        let bindings = match inner.pre.instantiate(&mut store) {
            Ok(bindings) => bindings,
            Err(error) => return Err(explain(&error, store.data(), limits)),
        };
        let info = exports::StreamInfo {
            channel: info.channel.clone(),
            epoch: info.epoch,
            object: info.object.clone(),
            max_record: info.max_record,
            offsets: info.offsets,
        };
        begin_call(&mut store);
        let opened = {
            let guest = bindings.pipemill_decoder_decoder();
            guest.stream().call_open(&mut store, options, &info)
        };
        match opened {
            Ok(Ok(handle)) => Ok(Self { store, bindings, handle, limits: limits.clone() }),
            Ok(Err(message)) => Err(Fault::new(
                ErrorKind::Plugin,
                format!("the decoder refuses to start: {}", printable(&message)),
                "correct its `options`; `pipemill plugin list` lists them",
            )),
            Err(error) => Err(explain(&error, store.data(), limits)),
        }
    }

    /// The fields of the records, as soon as they are known; always once a record was emitted.
    pub fn schema(&self) -> Option<&Arc<[Field]>> {
        self.store.data().schema.as_ref()
    }

    /// Bytes of the instance's linear memory.
    pub fn memory_held(&self) -> u64 {
        self.store.data().limiter.held
    }

    /// Lets `profiler` measure where the time goes.
    pub fn profile(&mut self, profiler: Arc<CallProfiler>) {
        self.store.call_hook(move |_, crossing| {
            profiler.cross(crossing);
            Ok(())
        });
    }

    /// What the last call of [`decode`](Self::decode) emitted; good even if it failed.
    pub fn emitted(&self) -> &DecodedRecords {
        &self.store.data().emitted
    }

    /// Shows a chunk. Not to be called again after an error.
    ///
    /// # Errors
    /// The decoder failed, lied, or hit a limit.
    pub fn decode(
        &mut self,
        bytes: &Bytes,
        chunk: Range<usize>,
        end: bool,
    ) -> Result<DecodeOutcome, Fault> {
        begin_call(&mut self.store);
        let state = self.store.data_mut();
        state.emitted.clear();
        state.chunk = Some((bytes.clone(), chunk.clone()));
        let shown = &(**bytes).as_ref()[chunk];
        let guest = self.bindings.pipemill_decoder_decoder();
        let answer = guest.stream().call_decode(&mut self.store, self.handle, shown, end);
        self.store.data_mut().chunk = None;
        let size = shown.len();
        match answer {
            Ok(Ok(progress)) => self.check(size, progress, end),
            Ok(Err(error)) => check_error(size, error),
            Err(error) => Err(explain(&error, self.store.data(), &self.limits)),
        }
    }

    /// Looks for the next record: how many bytes hold none, and whether one starts behind them.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub fn resync(
        &mut self,
        bytes: &Bytes,
        chunk: Range<usize>,
        end: bool,
    ) -> Result<(usize, bool), Fault> {
        begin_call(&mut self.store);
        let shown = &(**bytes).as_ref()[chunk];
        let guest = self.bindings.pipemill_decoder_decoder();
        let answer = guest.stream().call_resync(&mut self.store, self.handle, shown, end);
        let answer = answer.map_err(|error| explain(&error, self.store.data(), &self.limits))?;
        let consumed = answer.consumed as usize;
        if consumed > shown.len() {
            let size = shown.len();
            return Err(Fault::contract(format!("searched {consumed} of {size} bytes")));
        }
        Ok((consumed, answer.found))
    }

    fn check(
        &self,
        size: usize,
        progress: exports::Progress,
        end: bool,
    ) -> Result<DecodeOutcome, Fault> {
        let (consumed, need) = (progress.consumed as usize, progress.need as usize);
        if consumed > size {
            return Err(Fault::contract(format!("consumed {consumed} bytes of a chunk of {size}")));
        }
        let reached = self.emitted().end;
        if (consumed as u64) < reached {
            return Err(Fault::contract(format!(
                "emitted a record that ends at {reached}, but consumed only {consumed} bytes"
            )));
        }
        if consumed == 0 && self.emitted().records > 0 {
            return Err(Fault::contract("emitted records but consumed nothing"));
        }
        if consumed == 0 && !end && (1..=size).contains(&need) {
            return Err(Fault::contract(format!(
                "asks for {need} bytes and was shown {size}, but got no further"
            )));
        }
        Ok(DecodeOutcome::Progress { consumed, need })
    }
}

fn check_error(size: usize, error: exports::DecodeError) -> Result<DecodeOutcome, Fault> {
    let offset = error.offset as usize;
    if offset > size {
        return Err(Fault::contract(format!(
            "reports an error at {offset}, beyond its chunk of {size} bytes"
        )));
    }
    match error.resume {
        Resume::At(to) | Resume::Scan(to) if to <= offset as u64 => {
            Err(Fault::contract(format!("wants to go on at {to}, not after its error at {offset}")))
        }
        resume => Ok(DecodeOutcome::Bad { offset, message: printable(&error.message), resume }),
    }
}

/// Frames of the guest's stack that an error shows.
const FRAMES: usize = 6;

/// Why a call did not return, in the operator's terms.
fn explain(error: &wasmtime::Error, state: &HostState, limits: &Limits) -> Fault {
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
            let said = match (&state.last_error, trap) {
                (Some(text), _) => text.clone(),
                (None, Some(trap)) => trap.to_string(),
                (None, None) => format!("{error:#}"),
            };
            Fault::new(
                ErrorKind::Plugin,
                format!("the decoder failed: {said}{frames}{in_force}"),
                "this is a bug in the decoder; tell its author",
            )
        }
    }
}

/// The limits that it ran under, for those context have to find out why it did not get further.
fn in_force(limits: &Limits) -> String {
    let Limits { memory, call_timeout, output } = limits;
    format!(
        " [limits: memory {memory} bytes, CPU time {call_timeout:?} a call, output {output} bytes a call]"
    )
}

/// Where in the guest it happened, by the functions' names: from the innermost out, without those that
/// only carry out a panic, and calls of a function by itself told once.
fn frames(error: &wasmtime::Error) -> String {
    let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() else { return String::new() };
    let mut names: Vec<(String, usize)> = Vec::new();
    for frame in backtrace.frames() {
        let name = match frame.func_name() {
            Some(name) => format!("{:#}", rustc_demangle::demangle(name)),
            None => format!("function {}", frame.func_index()),
        };
        let count = names.len();
        match names.last_mut() {
            _ if PANIC.iter().any(|prefix| name.starts_with(prefix)) => {}
            Some((last, times)) if *last == name => *times += 1,
            _ if count == FRAMES => break,
            _ => names.push((name, 1)),
        }
    }
    let told = |(name, times): &(String, usize)| match times {
        1 => printable(name),
        times => format!("{} ({times} times)", printable(name)),
    };
    let names: Vec<_> = names.iter().map(told).collect();
    if names.is_empty() { String::new() } else { format!(" (in {})", names.join(" < ")) }
}

/// What Rust runs between a panic and the trap.
const PANIC: [&str; 6] = [
    "__rustc",
    "rust_",
    "std::panicking",
    "core::panicking",
    "std::sys::backtrace",
    "std::process",
];
