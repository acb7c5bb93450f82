//! A channel in mode `broadcast`: a consumer that lives from the beginning receives everything
//! exactly once and in order. One that comes later receives everything from then on, until it dies.

use std::collections::BTreeMap;

use super::{Account, Begun, Ledger, LifeEnd};
use crate::trace::Grants;

impl Ledger {
    /// Compares what the consumers of a channel in mode `broadcast` received, with each other and
    /// with the host's trace.
    ///
    /// # Panics
    /// If they contradict each other.
    pub fn check_broadcast(
        &self,
        host: i32,
        end: LifeEnd,
        channel: &str,
        slots: u64,
        trace: &Grants,
    ) {
        let mut faults = trace.faults.clone();
        for account in self.of(channel) {
            faults.extend(account.faults(host, end));
            faults.extend(account.order_faults());
            if !trace.has_gap {
                faults.extend(account.compare(end, trace));
            }
        }
        if !trace.has_gap {
            faults.extend(self.unsaid_acks(channel, trace));
        }
        faults.extend(self.content_faults(channel));
        let lasting: Vec<_> = self.of(channel).filter(|account| account.is_lasting).collect();
        assert!(lasting.len() > 1, "channel {channel} has {} lasting consumers", lasting.len());
        faults.extend(lasting.iter().flat_map(|account| account.lasting_faults()));
        let counts: Vec<_> = lasting.iter().map(|account| account.begun.len() as u64).collect();
        let (least, most) = (counts.iter().min(), counts.iter().max());
        let ahead = most.zip(least).map_or(0, |(most, least)| most - least);
        // At another end, some consumers could receive the rest of the ring, and others not.
        let allowed = if end == LifeEnd::Well { 0 } else { slots };
        if ahead > allowed {
            faults.push(format!("the lasting consumers were given {counts:?} batches"));
        }
        if end == LifeEnd::Well {
            let all = lasting.iter().all(|it| it.epochs == lasting[0].epochs && it.has_acked_all());
            if !all || lasting[0].epochs.is_empty() {
                faults.push(format!("not all was read: {lasting:?}"));
            }
        }
        assert!(faults.is_empty(), "channel {channel}, life ended {end:?}: {faults:#?}");
    }

    /// A batch is the same for all consumers that receive it, and so is the end of an epoch.
    fn content_faults(&self, channel: &str) -> Vec<String> {
        let mut faults = Vec::new();
        let (mut batches, mut ends) = (BTreeMap::new(), BTreeMap::new());
        for account in self.of(channel) {
            for begun in &account.begun {
                let content = (begun.epoch, begun.first, begun.records);
                let known = *batches.entry(begun.batch).or_insert(content);
                if known != content {
                    faults.push(format!("batch {} is {known:?}, and {content:?}", begun.batch));
                }
            }
            for &(epoch, records, early) in &account.epochs {
                let known = *ends.entry(epoch).or_insert((records, early));
                if known != (records, early) {
                    faults.push(format!("epoch {epoch} has {known:?}, and {records}, {early}"));
                }
            }
        }
        faults
    }
}

impl Account {
    /// Batches and epochs come in order and without a gap, from the first one that this consumer
    /// received.
    fn order_faults(&self) -> Vec<String> {
        let batches = self.begun.iter().map(|begun| begun.batch);
        let epochs = self.epochs.iter().map(|(epoch, ..)| *epoch);
        let mut faults = Vec::new();
        if !is_a_run(batches.clone()) {
            faults.push(format!("batches are not in order: {:?}", batches.collect::<Vec<_>>()));
        }
        if !is_a_run(epochs.clone()) {
            faults
                .push(format!("ends of epochs are not in order: {:?}", epochs.collect::<Vec<_>>()));
        }
        faults
    }

    /// A consumer that lived from the beginning received the first batch, and each epoch whole.
    fn lasting_faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.killed {
            faults.push(format!("a lasting consumer was killed: {self:?}"));
        }
        if self.begun.first().is_some_and(|begun| begun.batch != 0)
            || self.epochs.first().is_some_and(|(epoch, ..)| *epoch != 0)
        {
            faults.push(format!("the beginning is missing: {self:?}"));
        }
        for &(epoch, records, _) in &self.epochs {
            let of_epoch = |begun: &&Begun| begun.epoch == epoch && begun.acked;
            let given: u64 = self.begun.iter().filter(of_epoch).map(|begun| begun.records).sum();
            if given != records {
                faults
                    .push(format!("epoch {epoch}: {records} records are told, {given} were given"));
            }
        }
        faults
    }

    fn has_acked_all(&self) -> bool {
        self.begun.iter().all(|begun| begun.acked)
    }
}

/// Whether each number is one more than the one before.
fn is_a_run(numbers: impl Iterator<Item = u64> + Clone) -> bool {
    numbers.clone().zip(numbers.skip(1)).all(|(one, next)| next == one + 1)
}
