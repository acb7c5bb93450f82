//! The limits of a decoder, and the check of its memory and tables against them.

use std::time::Duration;

use wasmtime::ResourceLimiter;

/// Limits of one decoder instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Size of linear memory, in bytes.
    pub memory: u64,
    /// CPU time of one call. Waiting does not count.
    pub call_timeout: Duration,
    /// Bytes that one call may emit: its payload, and 8 for each span beyond the free ones, which
    /// are as many as the chunk has bytes. At most 1,048,576 spans are free.
    pub output: u64,
    /// Bytes that the fields of one record may have together, even if the decoder ignores the size
    /// limit that it gets.
    pub record: u64,
}

impl Limits {
    /// Limits that suffice for a correct decoder with records of up to `max_record` bytes. Its
    /// memory holds the chunk and the decoded record, each twice while a vector grows.
    pub fn for_records(max_record: u64) -> Self {
        let memory = (max_record.saturating_mul(6) + (128 << 20)).min(4 << 30);
        let output = max_record.saturating_mul(4);
        Self { memory, call_timeout: Duration::from_secs(10), output, record: max_record }
    }
}

impl Default for Limits {
    /// The limits for records of up to 64 MiB.
    fn default() -> Self {
        Self::for_records(64 << 20)
    }
}

/// Total number of elements of a plugin's tables: far more than any decoder's function table.
const TABLE_ELEMENTS: usize = 250_000;

/// Refuses memory and tables beyond the limits, and remembers the refused size.
pub(crate) struct Limiter {
    memory: u64,
    /// Bytes of the window, in addition to the limit.
    window: u64,
    /// Bytes of linear memory that the instance has.
    held: u64,
    /// Elements of its tables.
    elements: usize,
    /// Bytes of linear memory of the last refused request.
    pub(crate) refused: Option<u64>,
}

impl Limiter {
    /// A limiter for an instance that has no memory yet.
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { memory: limits.memory, window: 0, held: 0, elements: 0, refused: None }
    }

    /// Raises the limit of the instance by this many bytes, for a window.
    pub(crate) fn allow_window(&mut self, bytes: u64) {
        self.window = bytes;
    }

    /// Whether the instance's memory may begin with this many bytes. If not, they are remembered as
    /// refused.
    pub(crate) fn begins_with(&mut self, bytes: u64) -> bool {
        let fits = bytes <= self.memory;
        if fits {
            self.held = self.held.max(bytes);
        } else {
            self.refused = Some(bytes);
        }
        fits
    }

    /// Bytes of linear memory that the instance has, without its window.
    pub(crate) fn held(&self) -> u64 {
        self.held.saturating_sub(self.window)
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let fits = desired as u64 <= self.memory.saturating_add(self.window);
        if fits {
            self.held = desired as u64;
        } else {
            self.refused = Some((desired as u64).saturating_sub(self.window));
        }
        Ok(fits)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let elements = self.elements.saturating_add(desired.saturating_sub(current));
        let fits = elements <= TABLE_ELEMENTS;
        if fits {
            self.elements = elements;
        }
        Ok(fits)
    }

    // A decoder is one core module; the component adds small modules for its imports.
    // componentize-py makes about 40 modules of the interpreter and its libraries.
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
