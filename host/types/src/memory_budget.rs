//! The memory budget of a channel: each part has a limit, and bytes are taken before they are
//! allocated.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The purpose of a channel's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryPart {
    /// The ring's slots, batches that fit into none, their indexes, the window of a shuffle.
    Batches,
    /// The linear memory of the decoders.
    Decoders,
    /// The output of a call of each decoder.
    Outputs,
    /// The input that each decoder sees.
    Chunks,
    /// The copies that decoders make of the ring's pages by writing into their windows.
    Copies,
    /// The windows of decompressors, and inflated bytes that wait to be decoded.
    Inflating,
    /// The records that workers decode ahead, and the bytes of objects that they divide.
    Workers,
    /// The records that the channels of a mix have ready.
    Mixed,
    /// The recorded errors, and the bytes that are kept of each.
    Errors,
    /// The plans of objects, what is read for them, and the decoder that makes them.
    Plans,
    /// The positions of batches, the states of consumers, and the schema.
    States,
}

impl MemoryPart {
    /// All parts, in the order in which people read them.
    pub const ALL: [Self; 11] = [
        Self::Batches,
        Self::Decoders,
        Self::Outputs,
        Self::Chunks,
        Self::Copies,
        Self::Inflating,
        Self::Workers,
        Self::Mixed,
        Self::Errors,
        Self::Plans,
        Self::States,
    ];

    /// The purpose in words, and the key of the configuration that limits it.
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Batches => ("batches", "limits.batches"),
            Self::Decoders => ("decoders", "limits.memory"),
            Self::Outputs => ("what they make in a call", "limits.output"),
            Self::Chunks => ("their input", "max_record"),
            Self::Copies => ("copies of what they write into their windows", "slots"),
            Self::Inflating => ("inflating", "compression"),
            Self::Workers => ("what workers have ready", "workers"),
            Self::Mixed => ("what waits for the mix", "max_record"),
            Self::Errors => ("errors that are remembered", "max_errors"),
            Self::Plans => ("plans of objects", "limits.memory"),
            Self::States => ("positions, states and schemas", "slots"),
        }
    }
}

/// The limit in bytes of each part of a channel's memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryLimits([u64; MemoryPart::ALL.len()]);

impl MemoryLimits {
    /// The same limits with this many bytes for one part.
    #[must_use]
    pub fn with(mut self, part: MemoryPart, bytes: u64) -> Self {
        self.0[part as usize] = bytes;
        self
    }

    /// The bytes of a part.
    pub fn of(&self, part: MemoryPart) -> u64 {
        self.0[part as usize]
    }

    /// The bytes of all parts together.
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }
}

/// Bytes that a channel may have allocated at the same time. All of its threads share it.
#[derive(Debug)]
pub struct MemoryBudget {
    limits: MemoryLimits,
    taken: [AtomicU64; MemoryPart::ALL.len()],
}

impl MemoryBudget {
    /// The budget of a channel with these limits.
    pub fn within(limits: MemoryLimits) -> Arc<Self> {
        Arc::new(Self { limits, taken: Default::default() })
    }

    /// A budget of this many bytes for batches, and of 0 for all other parts.
    pub fn new(limit: u64) -> Arc<Self> {
        Self::within(MemoryLimits::default().with(MemoryPart::Batches, limit))
    }

    /// A budget for batches that is never exceeded.
    pub fn unlimited() -> Arc<Self> {
        Self::new(u64::MAX)
    }

    /// Bytes of all parts that may be taken at the same time.
    pub fn limit(&self) -> u64 {
        self.limits.total()
    }

    /// Bytes that are taken now, of all parts.
    pub fn taken(&self) -> u64 {
        MemoryPart::ALL.into_iter().map(|part| self.taken_for(part)).sum()
    }

    /// Bytes that are taken now for this part.
    pub fn taken_for(&self, part: MemoryPart) -> u64 {
        self.taken[part as usize].load(Ordering::Relaxed)
    }

    /// Bytes for batches that may be taken at the same time.
    pub fn batches(&self) -> u64 {
        self.limits.of(MemoryPart::Batches)
    }

    /// Bytes for batches that may still be taken now.
    pub fn left(&self) -> u64 {
        self.batches().saturating_sub(self.taken_for(MemoryPart::Batches))
    }

    /// Takes bytes for batches, until the result is dropped. Call it before they are allocated.
    ///
    /// # Errors
    /// The budget has fewer bytes left.
    pub fn take(self: &Arc<Self>, bytes: u64) -> Result<TakenMemory, OverBudget> {
        self.take_for(MemoryPart::Batches, bytes)
    }

    /// Takes bytes for this part, until the result is dropped. Call it before they are allocated.
    ///
    /// # Errors
    /// The part has fewer bytes left.
    pub fn take_for(
        self: &Arc<Self>,
        part: MemoryPart,
        bytes: u64,
    ) -> Result<TakenMemory, OverBudget> {
        self.add(part, bytes)?;
        Ok(TakenMemory { budget: self.clone(), part, bytes })
    }

    /// Takes all of each part except for batches: other limits keep a channel within these parts.
    ///
    /// # Errors
    /// Some of it is taken already.
    pub fn reserve(self: &Arc<Self>) -> Result<Vec<TakenMemory>, OverBudget> {
        let parts = MemoryPart::ALL.into_iter().filter(|part| *part != MemoryPart::Batches);
        parts.map(|part| self.take_for(part, self.limits.of(part))).collect()
    }

    fn add(&self, part: MemoryPart, bytes: u64) -> Result<(), OverBudget> {
        let limit = self.limits.of(part);
        let with_more = |taken: u64| taken.checked_add(bytes).filter(|sum| *sum <= limit);
        // A sum: no other memory depends on the order of these changes.
        self.taken[part as usize]
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, with_more)
            .map(drop)
            .map_err(|taken| OverBudget { part, bytes, taken, limit })
    }

    fn give_back(&self, part: MemoryPart, bytes: u64) {
        self.taken[part as usize].fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Bytes that were taken from a [`MemoryBudget`]. The drop gives them back.
#[derive(Debug)]
pub struct TakenMemory {
    budget: Arc<MemoryBudget>,
    part: MemoryPart,
    bytes: u64,
}

impl TakenMemory {
    /// Changes the reservation to `bytes` bytes: takes more, or returns the difference.
    ///
    /// # Errors
    /// The budget has fewer bytes left. Nothing is changed.
    pub fn resize(&mut self, bytes: u64) -> Result<(), OverBudget> {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.budget.add(self.part, more)?,
            None => self.budget.give_back(self.part, self.bytes - bytes),
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for TakenMemory {
    fn drop(&mut self) {
        self.budget.give_back(self.part, self.bytes);
    }
}

/// The budget has not enough bytes left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{bytes} more bytes are needed, but the channel has {taken} bytes already and may have {limit} \
     (`{}`)",
    part.words().1
)]
pub struct OverBudget {
    /// Their purpose.
    pub part: MemoryPart,
    /// Number of bytes that were requested.
    pub bytes: u64,
    /// Number of bytes that were taken for this purpose before.
    pub taken: u64,
    /// Limit in bytes for this purpose.
    pub limit: u64,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The sum never exceeds the limit, and no bytes are lost.
        #[test]
        fn never_above_its_limit(
            limit in 0_u64..1_000,
            steps in prop::collection::vec((0_usize..3, 0_u64..500), 0..100),
        ) {
            let budget = MemoryBudget::new(limit);
            let mut taken: Vec<TakenMemory> = Vec::new();
            for (step, bytes) in steps {
                let sum: u64 = taken.iter().map(|one| one.bytes).sum();
                prop_assert_eq!(budget.taken(), sum);
                let at = (bytes as usize).checked_rem(taken.len());
                match (step, at) {
                    (1, Some(at)) => {
                        let rest = sum - taken[at].bytes;
                        prop_assert_eq!(taken[at].resize(bytes).is_ok(), rest + bytes <= limit);
                    }
                    (2, Some(at)) => drop(taken.swap_remove(at)),
                    _ => {
                        let one = budget.take(bytes);
                        prop_assert_eq!(one.is_ok(), sum + bytes <= limit);
                        taken.extend(one);
                    }
                }
            }
            taken.clear();
            prop_assert_eq!(budget.taken(), 0);
        }
    }

    #[test]
    fn a_number_without_bounds_is_refused() {
        let budget = MemoryBudget::unlimited();
        let one = budget.take(1).expect("there is no limit");
        assert!(budget.take(u64::MAX).is_err());
        drop(one);
        assert_eq!(budget.taken(), 0);
    }

    /// Bytes that are reserved for decoders are not available for batches, and vice versa.
    #[test]
    fn a_part_has_its_own_limit_and_all_are_in_one_sum() {
        let limits = MemoryPart::ALL.into_iter().zip(1..);
        let limits = limits
            .fold(MemoryLimits::default(), |limits, (part, bytes)| limits.with(part, 100 * bytes));
        let budget = MemoryBudget::within(limits);
        let reserved = budget.reserve().expect("nothing is taken yet");
        assert_eq!(budget.taken(), limits.total() - 100);
        let error = budget.reserve().expect_err("all of it is taken");
        assert_eq!((error.part, error.taken), (MemoryPart::Decoders, 200));
        let batches = budget.take(100).expect("batches have their own");
        assert_eq!(budget.taken(), limits.total());
        let error = budget.take(1).expect_err("it is full");
        let says = "1 more bytes are needed, but the channel has 100 bytes already and may have \
                    100 (`limits.batches`)";
        assert_eq!(error.to_string(), says);
        drop((reserved, batches));
        assert_eq!(budget.taken(), 0);
    }
}
