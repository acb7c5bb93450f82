//! The account of one instance: the memory and the work that the decoder causes in the host.
//!
//! Each function that a decoder may call charges this account, once for each call and not for each
//! record. The host's memory counts in bytes, against [`Limits::output`]. The host's computations
//! count as CPU time, against [`Limits::call_timeout`]: the host's functions run on the decoder's
//! thread, so its clock measures both. The engine interrupts only WebAssembly, so a host's function
//! that goes over many bytes asks [`work`](Account::work) on its way.

use std::time::Duration;

use pipemill_types::{ErrorKind, Fault};
use wasmtime::Trap;

use crate::sandbox::call_time::{CallTime, thread_cpu_time};
use crate::sandbox::limits::Limits;

/// Bytes of work between two readings of the clock. A checksum of this many bytes takes 8 us or
/// more, reading the clock less than 1 us.
pub(crate) const WORK_PART: usize = 1 << 20;
/// Bytes that a span takes in a column: its offset and its length.
const SPAN_BYTES: u64 = 8;
/// Largest number of free spans of a call.
const MAX_FREE_SPANS: u64 = 1 << 20;
/// Bytes that an open block may hold without being charged.
const FREE_BLOCK_BYTES: u64 = 8 << 20;

/// The used part of the running call's limits.
#[derive(Default)]
pub(crate) struct Account {
    max_output: u64,
    /// Bytes that the fields of one record may have together.
    max_record: u64,
    /// Number of bytes that the call was charged.
    produced: u64,
    /// Spans that the call may still emit without a charge.
    free_spans: u64,
    time: CallTime,
    /// Bytes of work since the clock was last read.
    work: usize,
}

impl Account {
    /// An account for an instance with these limits.
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            max_output: limits.output,
            max_record: limits.record,
            produced: 0,
            free_spans: 0,
            time: CallTime::new(limits.call_timeout),
            work: 0,
        }
    }

    /// A new call begins, with a chunk of `chunk` bytes. One span for each byte of the chunk is
    /// free, up to a number: the limit applies to the bytes that a decoder makes, not to those that
    /// it refers to.
    pub(crate) fn begin_call(&mut self, chunk: usize) {
        self.produced = 0;
        self.free_spans = (chunk as u64 + 1).min(MAX_FREE_SPANS);
        self.work = 0;
        self.time.restart();
    }

    /// Charges spans, and bytes that the host keeps with them.
    ///
    /// # Errors
    /// The call has produced more than `limits.output`.
    pub(crate) fn charge(&mut self, spans: usize, bytes: u64) -> Result<(), Fault> {
        let free = self.free_spans.min(spans as u64);
        self.free_spans -= free;
        let charged = (spans as u64 - free) * SPAN_BYTES + bytes;
        self.produced = self.produced.saturating_add(charged);
        if self.produced <= self.max_output {
            return Ok(());
        }
        Err(Fault::new(
            ErrorKind::Limit,
            format!("the decoder emitted more than {} bytes in one call", self.max_output),
            "if its records are really that large, raise `limits.output`",
        ))
    }

    /// Bytes that a call may still decompress, if its payload has `payload` bytes and the open
    /// block holds `held`. They are taken from half of `limits.output`: the other half is for the
    /// spans.
    pub(crate) fn left_to_decompress(&self, payload: usize, held: u64) -> u64 {
        let held = held.saturating_sub(FREE_BLOCK_BYTES);
        (self.max_output / 2).saturating_sub(held).saturating_sub(payload as u64)
    }

    /// Largest number of bytes that an open block may hold.
    pub(crate) fn max_block(&self) -> u64 {
        self.max_output / 2 + FREE_BLOCK_BYTES
    }

    /// Bytes that the fields of one record may have together. They may be more than the host holds,
    /// because fields may share bytes; but a record that is copied has each of them once.
    pub(crate) fn max_record(&self) -> u64 {
        self.max_record
    }

    /// Counts `bytes` of work, before it is done. Reads the clock after each [`WORK_PART`].
    ///
    /// # Errors
    /// The call has used up its CPU time: the same trap as in WebAssembly.
    #[inline]
    pub(crate) fn work(&mut self, bytes: usize) -> Result<(), Trap> {
        self.work = self.work.saturating_add(bytes);
        if self.work < WORK_PART {
            return Ok(());
        }
        self.check_clock()
    }

    /// Compares the thread's CPU time with the limit.
    #[cold]
    fn check_clock(&mut self) -> Result<(), Trap> {
        self.work = 0;
        let now = thread_cpu_time().map_err(|_| Trap::Interrupt)?;
        self.tick(now).map(drop).ok_or(Trap::Interrupt)
    }

    /// Checks the call at this CPU time of its thread. Returns the number of ticks until the next
    /// check, or `None` if the call has used up its time.
    pub(crate) fn tick(&mut self, now: Duration) -> Option<u64> {
        self.time.tick(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(output: u64) -> Account {
        let call_timeout = Duration::from_millis(20);
        Account::new(&Limits { memory: 0, call_timeout, output, record: u64::MAX })
    }

    #[test]
    fn spans_beyond_the_bytes_of_the_chunk_are_charged() {
        let mut account = account(80);
        account.begin_call(9);
        assert_eq!(account.charge(10, 0), Ok(()));
        assert_eq!(account.charge(5, 40), Ok(()));
        assert!(account.charge(0, 1).is_err());
        account.begin_call(9);
        assert_eq!(account.charge(20, 0), Ok(()));
        assert!(account.charge(1, 0).is_err());
    }

    #[test]
    fn a_large_chunk_does_not_free_all_spans() {
        let mut account = account(80);
        account.begin_call(64 << 20);
        assert_eq!(account.charge(1 << 20, 80), Ok(()));
        assert!(account.charge(1, 0).is_err());
    }

    #[test]
    fn work_that_never_ends_is_interrupted() {
        let mut account = account(0);
        account.begin_call(0);
        let mut hash = 0;
        let interrupted = loop {
            if let Err(trap) = account.work(WORK_PART) {
                break trap;
            }
            hash = crc_fast::crc32_iscsi(&[hash as u8; 4096]);
        };
        assert_eq!(interrupted, Trap::Interrupt, "after the hash {hash}");
        account.begin_call(0);
        assert_eq!(account.work(WORK_PART), Ok(()));
    }
}
