//! The batches that the consumers of one host's life received and ACKed, by their own report, and
//! whether that can be.
//!
//! A consumer says `about` before an ACK and `acked` after it. One that was killed between the two words may have sent
//! the ACK or not: its last batch counts as either. The host's trace then says which.

mod broadcast;

use std::collections::{BTreeMap, BTreeSet};

use super::child::Speaker;
use super::trace::{GrantEnd, Grants};

/// The way in which a host's life ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifeEnd {
    /// All was read: the host ended normally.
    Well,
    /// Its command was killed, so it ended in good order.
    Command,
    /// It was killed.
    Killed,
}

/// How many lines an epoch's writer has written.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    pub least: u64,
    pub most: u64,
}

/// A batch that a consumer has begun.
#[derive(Debug)]
struct Begun {
    batch: u64,
    epoch: u64,
    /// Number of its first record.
    first: u64,
    records: u64,
    acked: bool,
}

/// The reports of one consumer.
#[derive(Debug)]
pub struct Account {
    channel: &'static str,
    host: Option<i32>,
    pid: Option<i32>,
    begun: Vec<Begun>,
    /// Number and records of the epochs whose end it received, and whether not all of the input was
    /// read.
    epochs: Vec<(u64, u64, bool)>,
    /// It received the end of the stream, or has failed, and why.
    pub end: Option<Result<(), String>>,
    /// The test has killed it.
    pub killed: bool,
    /// It lives from the channel's beginning to the host's end.
    pub is_lasting: bool,
    /// It prints nothing more.
    pub is_silent: bool,
}

/// The reports of one host's life.
#[derive(Debug, Default)]
pub struct Ledger {
    accounts: BTreeMap<Speaker, Account>,
    /// The records by channel and epoch, where the test has a writer.
    pub written: BTreeMap<(&'static str, u64), Written>,
    /// Batches begun, by channel.
    begun: BTreeMap<&'static str, u64>,
}

impl Ledger {
    pub fn open(&mut self, speaker: Speaker, channel: &'static str) {
        let account = Account {
            channel,
            host: None,
            pid: None,
            begun: Vec::new(),
            epochs: Vec::new(),
            end: None,
            killed: false,
            is_lasting: false,
            is_silent: false,
        };
        self.accounts.insert(speaker, account);
    }

    /// Whether a consumer reports this.
    pub fn knows(&self, speaker: Speaker) -> bool {
        self.accounts.contains_key(&speaker)
    }

    pub fn account(&mut self, speaker: Speaker) -> &mut Account {
        self.accounts.get_mut(&speaker).expect("each consumer has an account")
    }

    /// The consumer's process id, once it is connected.
    pub fn pid(&self, speaker: Speaker) -> Option<i32> {
        self.accounts.get(&speaker)?.pid
    }

    /// Batches of this channel that were begun so far.
    pub fn begun(&self, channel: &str) -> u64 {
        self.begun.get(channel).copied().unwrap_or_default()
    }

    /// Whether a consumer received the end of the channel.
    pub fn has_ended(&self, channel: &str) -> bool {
        self.of(channel).any(|account| account.end == Some(Ok(())))
    }

    fn of(&self, channel: &str) -> impl Iterator<Item = &Account> {
        self.accounts.values().filter(move |account| account.channel == channel)
    }

    pub fn hear(&mut self, speaker: Speaker, line: Option<&str>) {
        let account = self.accounts.get_mut(&speaker).expect("each consumer has an account");
        let Some(line) = line else {
            account.is_silent = true;
            return;
        };
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let number = |at: usize| -> u64 {
            let number = rest.split(' ').nth(at).and_then(|word| word.parse().ok());
            number.unwrap_or_else(|| panic!("a consumer says {line:?}"))
        };
        match word {
            "connected" => {
                (account.host, account.pid) = (Some(number(0) as i32), Some(number(1) as i32));
            }
            "about" => {
                let (batch, epoch, first, records) = (number(0), number(1), number(2), number(3));
                account.begun.push(Begun { batch, epoch, first, records, acked: false });
                *self.begun.entry(account.channel).or_default() += 1;
            }
            "acked" => {
                let last = account.begun.last_mut().filter(|begun| begun.batch == number(0));
                last.unwrap_or_else(|| panic!("{line:?} without its `about`")).acked = true;
            }
            "epoch" => account.epochs.push((number(0), number(1), rest.ends_with("early"))),
            "end" => account.end = Some(Ok(())),
            "failed" => account.end = Some(Err(rest.to_owned())),
            _ => panic!("a consumer says {line:?}"),
        }
    }

    /// Compares the reports about a channel in mode `share`, the host's trace, and what was
    /// written.
    ///
    /// # Panics
    /// If they contradict each other.
    pub fn check(&self, host: i32, end: LifeEnd, channel: &str, slots: u64, trace: &Grants) {
        let mut faults = trace.faults.clone();
        for account in self.of(channel) {
            faults.extend(account.faults(host, end));
            if !trace.has_gap {
                faults.extend(account.compare(end, trace));
            }
        }
        if !trace.has_gap {
            faults.extend(self.unsaid_acks(channel, trace));
        }
        faults.extend(self.double_acks(channel));
        faults.extend(self.epoch_faults(channel, end, slots));
        assert!(faults.is_empty(), "channel {channel}, life ended {end:?}: {faults:#?}");
    }

    /// The ACKs that the host has received were sent, or may have been. In a long life, the kernel gives a process id
    /// again: so this asks whether any process of that id has sent it.
    fn unsaid_acks(&self, channel: &str, trace: &Grants) -> Vec<String> {
        let mut sent = BTreeSet::new();
        for account in self.of(channel) {
            let last = account.begun.last().map(|begun| begun.batch);
            let may_be = |begun: &&Begun| begun.acked || Some(begun.batch) == last;
            let begun = account.begun.iter().filter(may_be);
            sent.extend(begun.map(|begun| (account.pid.unwrap_or_default(), begun.batch)));
        }
        let acked = trace.grants.values().filter(|grant| grant.acked);
        let unsaid = acked.filter(|grant| !sent.contains(&(grant.pid, grant.batch)));
        unsaid.map(|grant| format!("no process has sent this ACK: {grant:?}")).collect()
    }

    fn double_acks(&self, channel: &str) -> Vec<String> {
        let mut acks = BTreeMap::<u64, Vec<i32>>::new();
        for account in self.of(channel) {
            for begun in account.begun.iter().filter(|begun| begun.acked) {
                acks.entry(begun.batch).or_default().push(account.pid.unwrap_or_default());
            }
        }
        acks.retain(|_, by| by.len() > 1);
        acks.iter().map(|(batch, by)| format!("batch {batch} was ACKed by {by:?}")).collect()
    }

    /// The end of an epoch is sent when all of its batches are ACKed. So the consumers that
    /// received it, those that ACKed, and the writer agree on its records.
    fn epoch_faults(&self, channel: &str, end: LifeEnd, slots: u64) -> Vec<String> {
        let mut faults = Vec::new();
        // Epoch, records, and whether it is certain or possible that it was ACKed.
        let mut batches = BTreeMap::<u64, (u64, u64, bool)>::new();
        for account in self.of(channel) {
            let last = account.begun.len().saturating_sub(1);
            for (at, begun) in account.begun.iter().enumerate() {
                let acked = begun.acked || (at == last && account.end.is_none());
                let entry =
                    batches.entry(begun.batch).or_insert((begun.epoch, begun.records, false));
                entry.2 |= acked;
            }
        }
        let mut told = BTreeMap::<u64, (u64, bool)>::new();
        for &(epoch, records, early) in self.of(channel).flat_map(|account| &account.epochs) {
            let first = *told.entry(epoch).or_insert((records, early));
            if first != (records, early) {
                faults.push(format!(
                    "the end of epoch {epoch} has {first:?}, and {records}, {early}"
                ));
            }
        }
        for (&epoch, &(records, early)) in &told {
            if early && end != LifeEnd::Command {
                faults.push(format!("epoch {epoch} ended early"));
            }
            let of_epoch = batches.values().filter(|batch| batch.0 == epoch && batch.2);
            let acked: u64 = of_epoch.map(|batch| batch.1).sum();
            if acked != records {
                faults
                    .push(format!("epoch {epoch}: {records} records are told, {acked} were ACKed"));
            }
            // A host that stops does not read the rest.
            let least = |written: &Written| if early { 0 } else { written.least };
            if let Some(written) = self.written.get(&(channel, epoch))
                && !(least(written)..=written.most).contains(&records)
            {
                faults.push(format!("epoch {epoch}: {records} records are told, of {written:?}"));
            }
        }
        // Of the epochs that did not end, the batches in the ring were not ACKed when the host died, and no more.
        let count = batches.last_key_value().map_or(0, |(last, _)| last + 1);
        let open = (0..count).filter(|batch| {
            batches.get(batch).is_none_or(|batch| !batch.2 && !told.contains_key(&batch.0))
        });
        let allowed = if end == LifeEnd::Well { 0 } else { slots };
        let open: Vec<_> = open.collect();
        if open.len() as u64 > allowed {
            faults.push(format!("of {count} batches, {open:?} were not ACKed"));
        }
        faults
    }
}

impl Account {
    /// Checks this consumer's report against the way in which the host ended.
    fn faults(&self, host: i32, end: LifeEnd) -> Option<String> {
        if self.host.is_some_and(|found| found != host) {
            return Some(format!("{self:?} was served by another host than {host}"));
        }
        let fits = match (&self.end, end) {
            _ if self.killed => true,
            (Some(Ok(())), LifeEnd::Well | LifeEnd::Command) => true,
            (Some(Err(why)), LifeEnd::Command | LifeEnd::Killed) => {
                // A consumer that was not yet connected finds no host, or the host hangs up.
                why.contains("host died") || self.pid.is_none()
            }
            // The command gets a SIGTERM.
            (None, LifeEnd::Command | LifeEnd::Killed) => true,
            _ => false,
        };
        (!fits)
            .then(|| format!("host {host} ended {end:?}, and this consumer does not fit: {self:?}"))
    }

    /// Checks this consumer's report against the host's.
    fn compare(&self, end: LifeEnd, trace: &Grants) -> Vec<String> {
        let Some(pid) = self.pid else { return Vec::new() };
        let mut faults = Vec::new();
        for begun in &self.begun {
            let batch = begun.batch;
            match trace.of(batch, pid) {
                // The last events before a SIGKILL are not in the trace.
                None if end == LifeEnd::Killed => {}
                None => faults.push(format!("batch {batch} was not granted to process {pid}")),
                Some(grant) if begun.acked && !grant.acked => {
                    // The host may end before it receives the ACK of a consumer that outlives it, and after a
                    // SIGKILL its trace lacks the last events.
                    let is_lost = match end {
                        LifeEnd::Well => true,
                        LifeEnd::Command => self.killed,
                        LifeEnd::Killed => grant.end != GrantEnd::Held,
                    };
                    if is_lost {
                        faults.push(format!("the ACK of process {pid} was lost: {grant:?}"));
                    }
                }
                Some(_) => {}
            }
        }
        faults
    }
}
