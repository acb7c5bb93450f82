//! Explains why a record can't be scanned: it is incomplete, damaged, or too large.
//!
//! It judges each value by the bytes up to its head, in the order of the input. So the answer does
//! not depend on how the input was split.

use crate::format::{self, Container, Head, MAX_DEPTH};

/// The fault of a record. Positions count from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Diagnosis {
    /// It is incomplete. It has at least this many bytes.
    Cut { need: u64 },
    /// The byte at this position starts no value.
    NeverUsed { at: u64 },
    /// The array or map at this position is nested too deeply.
    TooDeep { at: u64 },
    /// With the value at this position, the record has at least `size` bytes, which is too large.
    TooLarge { at: u64, size: u64 },
}

/// The diagnosis of the record at the start of `bytes`. `max` is the largest size of a record. A
/// record without a fault counts as cut.
pub(crate) fn diagnose(bytes: &[u8], max: u64) -> Diagnosis {
    // Numbers of remaining values in the containers around the current one.
    let mut stack = Vec::with_capacity(MAX_DEPTH);
    let (mut at, mut left) = (0u64, 1u64);
    // Number of remaining values in all containers: each has at least one byte.
    let mut pending = 1u64;
    loop {
        left -= 1;
        pending -= 1;
        let here = usize::try_from(at).ok().and_then(|at| bytes.get(at..));
        let Some(here) = here.filter(|here| !here.is_empty()) else {
            return Diagnosis::Cut { need: at + 1 + pending };
        };
        let (end, values) = match format::head(here) {
            Head::Leaf(size) => (at + size, None),
            Head::Container(Container { .. }) if stack.len() == MAX_DEPTH => {
                return Diagnosis::TooDeep { at };
            }
            Head::Container(Container { head, values, .. }) => (at + head as u64, Some(values)),
            Head::NeverUsed => return Diagnosis::NeverUsed { at },
            Head::Cut(head) => return Diagnosis::Cut { need: at + head as u64 + pending },
        };
        pending += values.unwrap_or(0);
        let size = end + pending;
        if size > max {
            return Diagnosis::TooLarge { at, size };
        }
        if end > bytes.len() as u64 {
            return Diagnosis::Cut { need: size };
        }
        at = end;
        if let Some(values) = values {
            stack.push(left);
            left = values;
        }
        while left == 0 {
            match stack.pop() {
                Some(outer) => left = outer,
                None => return Diagnosis::Cut { need: bytes.len() as u64 + 1 },
            }
        }
    }
}
