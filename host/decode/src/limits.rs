//! What a decoder may use at the most, and what it tried to use when it was stopped.

use std::time::Duration;

use wasmtime::ResourceLimiter;

/// Limits of one decoder instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Linear memory, in bytes.
    pub memory: u64,
    /// CPU time of one call, in its own thread: waiting does not count.
    pub call_timeout: Duration,
    /// Payload that one call may emit, in bytes.
    pub output: u64,
}

impl Limits {
    /// What a sound decoder needs for records of up to so many bytes: the chunk and what it makes of
    /// it, each twice while a vector grows.
    pub fn for_records(max_record: u64) -> Self {
        let memory = (max_record.saturating_mul(6) + (128 << 20)).min(4 << 30);
        let output = max_record.saturating_mul(4);
        Self { memory, call_timeout: Duration::from_secs(10), output }
    }
}

impl Default for Limits {
    /// For records of up to 64 MiB.
    fn default() -> Self {
        Self::for_records(64 << 20)
    }
}

/// Elements that a plugin's tables may have in all: far more than any decoder's function table.
const TABLE_ELEMENTS: usize = 100_000;

/// Refuses growth over the limit and remembers that it did.
pub(super) struct Limiter {
    memory: u64,
    /// Bytes that the instance has.
    pub(super) held: u64,
    pub(super) refused: Option<u64>,
}

impl Limiter {
    pub(super) fn new(limits: &Limits) -> Self {
        Self { memory: limits.memory, held: 0, refused: None }
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let fits = desired as u64 <= self.memory;
        if fits {
            self.held = desired as u64;
        } else {
            self.refused = Some(desired as u64);
        }
        Ok(fits)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(desired <= TABLE_ELEMENTS)
    }

    // A decoder is one core module, and the wrapping adds small ones for its imports; componentize-py
    // makes some forty of the interpreter and its libraries.
    fn instances(&self) -> usize {
        128
    }
    fn tables(&self) -> usize {
        32
    }
    fn memories(&self) -> usize {
        1
    }
}
