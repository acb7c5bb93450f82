//! What the consumers of a channel said in the life of one host, and what must be true of it.

use std::collections::BTreeMap;

/// A batch, as consumers have seen it.
#[derive(Debug, Default)]
struct Batch {
    epoch: u64,
    first: u64,
    records: u64,
    begun: u32,
    acked: u32,
}

/// What was said of one channel.
#[derive(Debug, Default)]
pub struct Ledger {
    batches: BTreeMap<u64, Batch>,
    /// The epochs whose end was said, and their records.
    epochs: BTreeMap<u64, u64>,
}

impl Ledger {
    /// Adds what a consumer has said.
    ///
    /// # Panics
    /// If another consumer has said something else of the same batch or epoch.
    pub fn add(&mut self, lines: &[String]) {
        for line in lines {
            let mut words = line.split(' ');
            let word = words.next().unwrap_or_default();
            let numbers: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
            match (word, &*numbers) {
                ("about", [number, epoch, first, records]) => {
                    let batch = self.batches.entry(*number).or_default();
                    let seen = (batch.epoch, batch.first, batch.records);
                    let again = batch.begun > 0 && seen != (*epoch, *first, *records);
                    assert!(!again, "batch {number} was {seen:?}, and comes as {line:?}");
                    (batch.epoch, batch.first, batch.records) = (*epoch, *first, *records);
                    batch.begun += 1;
                }
                ("acked", [number]) => self.batches.entry(*number).or_default().acked += 1,
                ("epoch", [epoch, records]) => {
                    let before = self.epochs.insert(*epoch, *records);
                    assert!(before.is_none_or(|before| before == *records), "{line:?}, {before:?}");
                }
                ("connected" | "end", []) => {}
                // The host was killed: what it said before holds.
                ("failed", _) => {}
                _ => panic!("a consumer says {line:?}"),
            }
        }
    }

    /// Checks the life of a host. Records of an object are numbered from 0; an epoch has one object or several.
    /// With `to_its_end`, nothing was killed that can't be started again: then nothing at all may be missing.
    ///
    /// # Panics
    /// If a batch was ACKed twice, batches overlap or leave a gap, or records of an epoch are missing that has ended.
    pub fn check(&self, to_its_end: bool) {
        let mut before: Option<(u64, &Batch)> = None;
        for (number, batch) in &self.batches {
            assert!(batch.acked <= 1, "batch {number} was ACKed {} times", batch.acked);
            assert!(batch.begun > 0, "batch {number} was ACKed but never begun");
            let follows = before.is_some_and(|(last, _)| last + 1 == *number);
            if let Some((last, other)) = before.filter(|_| follows) {
                // Of the same object, or the first of the next one.
                let is_next =
                    other.epoch == batch.epoch && other.first + other.records == batch.first;
                let starts = batch.first == 0 && batch.epoch >= other.epoch;
                assert!(
                    is_next || starts,
                    "{other:?}, then {batch:?}: batches {last} and {number}"
                );
            }
            assert!(follows || !to_its_end || *number == 0, "batches before {number} are missing");
            before = Some((*number, batch));
        }
        for (epoch, records) in &self.epochs {
            assert_eq!(
                self.records_of(*epoch),
                *records,
                "records of epoch {epoch}, which has ended"
            );
        }
    }

    /// Records of the epoch that consumers have seen.
    fn records_of(&self, epoch: u64) -> u64 {
        let of_epoch = self.batches.values().filter(|batch| batch.epoch == epoch);
        of_epoch.map(|batch| batch.records).sum()
    }

    /// The epochs that have ended, and their records.
    pub fn epochs(&self) -> &BTreeMap<u64, u64> {
        &self.epochs
    }

    /// Number of batches.
    pub fn batches(&self) -> usize {
        self.batches.len()
    }

    /// How often a batch came again after the death of a consumer.
    pub fn again(&self) -> u64 {
        self.batches.values().map(|batch| u64::from(batch.begun.saturating_sub(1))).sum()
    }
}
