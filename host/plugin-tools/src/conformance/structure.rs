//! The structure of a sound input: its records, and where they begin. Some checks change the input
//! at these positions. They take only the first part of a large input, so that many changes can be
//! tried.

use std::sync::Arc;

use crate::decode_run::{DecodeRun, PluginUnderTest};
use crate::trace::Shown;

/// A sound input and its records.
#[derive(Debug)]
pub(super) struct Structure {
    /// The input.
    pub(super) input: Arc<[u8]>,
    /// Its run, without errors.
    pub(super) run: DecodeRun,
    /// The starts of the records, each once.
    pub(super) units: Vec<u64>,
}

/// Size in bytes of an input that is enough for these checks.
const ENOUGH_BYTES: usize = 32 << 10;
/// Smallest number of records of a part.
const MIN_UNITS: usize = 4;
/// Number of records at which a part of the input may end.
const TRIED_ENDS: usize = 16;

impl Structure {
    /// The structure of an input; `None` if it has errors.
    pub(super) fn of(tested: &PluginUnderTest, input: &Arc<[u8]>) -> Option<Self> {
        let run = tested.trace(input, Shown::default()).run;
        if !run.errors.is_empty() {
            return None;
        }
        let mut units: Vec<u64> = run.records.iter().map(|record| record.start).collect();
        units.dedup();
        Some(Self { input: input.clone(), run, units })
    }

    /// The structure of the first part of a large input. It ends where a record begins, if the
    /// decoder accepts that as an independent input.
    pub(super) fn of_first_part(tested: &PluginUnderTest, input: &Arc<[u8]>) -> Option<Self> {
        let all = Self::of(tested, input)?;
        if input.len() <= ENOUGH_BYTES {
            return Some(all);
        }
        let fits = all.units.partition_point(|start| *start <= ENOUGH_BYTES as u64);
        let ends =
            all.units[..fits.max(MIN_UNITS + 1).min(all.units.len())].iter().rev().take(TRIED_ENDS);
        for end in ends.filter(|end| **end > 0) {
            let part: Arc<[u8]> = input[..*end as usize].into();
            let count = all.run.records.partition_point(|record| record.start < *end);
            match Self::of(tested, &part) {
                Some(part)
                    if part.units.len() >= MIN_UNITS
                        && part.run.records[..] == all.run.records[..count] =>
                {
                    return Some(part);
                }
                _ => {}
            }
        }
        Some(all)
    }

    /// The end of the unit with this index: the start of the next one, or the end of the input.
    pub(super) fn end_of(&self, unit: usize) -> u64 {
        self.units.get(unit + 1).copied().unwrap_or(self.input.len() as u64)
    }

    /// Number of records before the unit with this index.
    pub(super) fn records_before(&self, unit: usize) -> usize {
        let start = self.units.get(unit).copied().unwrap_or(u64::MAX);
        self.run.records.partition_point(|record| record.start < start)
    }
}
