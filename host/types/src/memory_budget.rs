//! The memory that a channel may take: each part is counted before it is allocated.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that a channel may have allocated at the same time. All of its threads share it.
#[derive(Debug)]
pub struct MemoryBudget {
    limit: u64,
    taken: AtomicU64,
}

impl MemoryBudget {
    /// A budget of this many bytes.
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { limit, taken: AtomicU64::new(0) })
    }

    /// A budget that is never exceeded.
    pub fn unlimited() -> Arc<Self> {
        Self::new(u64::MAX)
    }

    /// Bytes that may be taken at the same time.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes that are taken now.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Takes bytes, until the result is dropped. To be called before they are allocated.
    ///
    /// # Errors
    /// The budget has fewer bytes left.
    pub fn take(self: &Arc<Self>, bytes: u64) -> Result<TakenMemory, OverBudget> {
        self.add(bytes)?;
        Ok(TakenMemory { budget: self.clone(), bytes })
    }

    fn add(&self, bytes: u64) -> Result<(), OverBudget> {
        let with_more = |taken: u64| taken.checked_add(bytes).filter(|sum| *sum <= self.limit);
        // A sum of numbers: no other memory depends on the order of these changes.
        self.taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, with_more)
            .map(drop)
            .map_err(|taken| OverBudget { bytes, taken, limit: self.limit })
    }
}

/// Bytes that were taken from a [`MemoryBudget`]. The drop gives them back.
#[derive(Debug)]
pub struct TakenMemory {
    budget: Arc<MemoryBudget>,
    bytes: u64,
}

impl TakenMemory {
    /// Takes as many more, or gives back as many, that it is `bytes` bytes.
    ///
    /// # Errors
    /// The budget has fewer bytes left. Nothing is changed.
    pub fn resize(&mut self, bytes: u64) -> Result<(), OverBudget> {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.budget.add(more)?,
            None => {
                self.budget.taken.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
            }
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for TakenMemory {
    fn drop(&mut self) {
        self.budget.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A budget has not enough left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{bytes} more bytes are needed, but the channel has {taken} bytes already and may have {limit} \
     (`limits.batches`)"
)]
pub struct OverBudget {
    /// Bytes that were to be taken.
    pub bytes: u64,
    /// Bytes that were taken before.
    pub taken: u64,
    /// Bytes that may be taken.
    pub limit: u64,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The sum of what was taken is never above the limit, and nothing of it is lost.
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
}
