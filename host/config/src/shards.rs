//! Shards: the rules for them, and the channel that reads them.

use pipemill_channel::{RecordOrder, Until};
use pipemill_types::{BatchSize, Mode};

use super::document::ReadResult;
use super::keys::*;
use super::model::{Channel, Mix, MixInput, Ring, Shuffle, Source, WorkerCount};
use super::read::Reader;

/// The largest number of shards that one host reads, each in a thread of its own.
const MOST: usize = 256;

/// Checks that the order of a channel can be divided into this many shards, and these among its
/// parts.
pub(super) fn check(
    table: &Reader,
    shards: u32,
    blocks: Option<u64>,
    batch: &ReadResult<Option<BatchSize>>,
    workers: &ReadResult<WorkerCount>,
    source: &ReadResult<Source>,
) -> ReadResult<()> {
    let fault = |message: String, remedy: String| Err(table.fault(SHARDS.name, message, remedy));
    let (Ok(batch), Ok(source), Ok(workers)) = (batch, source, workers) else { return Ok(()) };
    if blocks.is_none() {
        let remedy = "add blocks = \"8MiB\"".to_owned();
        return fault("shards are made of shuffled blocks".to_owned(), remedy);
    }
    if table.has(&WINDOW) {
        let remedy = "take more shards instead: each batch has records of all of them".to_owned();
        return fault("shards have no window".to_owned(), remedy);
    }
    if matches!(workers, WorkerCount::Exactly(2..)) {
        let remedy = format!("leave `{}` out", WORKERS.name);
        return fault("each shard has a thread of its own".to_owned(), remedy);
    }
    let Some(batch) = batch else {
        let remedy = "give `batch`, such as batch = 256".to_owned();
        return fault("shards are read in batches of a size".to_owned(), remedy);
    };
    let hosts =
        source.reading().and_then(|reading| reading.order.part).map_or(1, |part| part.count);
    if !shards.is_multiple_of(hosts) {
        let message = format!("{hosts} hosts can't have equally many of {shards} shards");
        let remedy = format!("take {} hosts", near_divisors(shards, hosts));
        return fault(message, remedy);
    }
    let own = (shards / hosts) as usize;
    if own > MOST {
        let message = format!("one of {hosts} hosts would read {own} shards, each in a thread");
        let remedy = format!("take fewer shards, or more hosts: a host reads {MOST} at most");
        return fault(message, remedy);
    }
    if !batch.records.is_multiple_of(own) {
        let (records, below) = (batch.records, batch.records / own * own);
        let message =
            format!("a batch of {records} can't have equally many records of {own} shards");
        let near = if below == 0 { own.to_string() } else { format!("{below} or {}", below + own) };
        return fault(message, format!("set batch = {near}"));
    }
    Ok(())
}

/// The divisors of `number` that are nearest to `wanted`, in words.
fn near_divisors(number: u32, wanted: u32) -> String {
    let divides = |divisor: &u32| number.is_multiple_of(*divisor);
    let below = (1..=number.min(wanted)).rev().find(divides).unwrap_or(1);
    match (wanted..=number).find(divides) {
        Some(above) => format!("{below} or {above}"),
        None => below.to_string(),
    }
}

impl Channel {
    /// Makes a channel of an index that has shards a mix of its shards.
    pub fn divide_into_shards(&mut self) {
        let Some((shards, batch)) = self.shuffle.and_then(|one| one.shards).zip(self.batch) else {
            return;
        };
        let Some((reading, indexed)) = self.source.reading().zip(self.indexed.as_ref()) else {
            return;
        };
        let (order, epochs) = (reading.order, reading.epochs);
        let (index, hosts) = order.part.map_or((0, 1), |part| (part.index, part.count));
        let own = shards / hosts.max(1);
        let first = index * own;
        let per_round = batch.records as u64 / u64::from(own.max(1));
        let shards = pipemill_channel::Shards::new(
            indexed.list.clone(),
            order,
            (first..first + own, shards),
            per_round,
            batch.tail,
        );
        let input = |(number, order)| {
            let mut channel =
                Channel { name: format!("{}/{number}", self.name), ..self.as_input() };
            if let Some(reading) = channel.source.reading_mut() {
                reading.order = order;
            }
            MixInput { channel, weight: 1_000_000 }
        };
        let inputs = (first..).zip(shards.orders()).map(input).collect();
        let (until, shards) = (Until::All, Some(shards));
        self.source = Source::Mix(Box::new(Mix { inputs, until, seed: 0, epochs, shards }));
    }

    /// The channel as one that is mixed.
    fn as_input(&self) -> Channel {
        let shuffle = self.shuffle.map(|shuffle| Shuffle { shards: None, ..shuffle });
        Channel {
            shuffle,
            workers: WorkerCount::Exactly(1),
            order: RecordOrder::Strict,
            mode: Mode::Share,
            consumers: 1,
            batch: None,
            checkpoint: None,
            resume: Vec::new(),
            resume_settings: Vec::new(),
            done: Vec::new(),
            ring: Ring::default(),
            batch_memory: None,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::near_divisors;

    #[test]
    fn the_nearest_numbers_of_hosts_are_named() {
        let near = |hosts| near_divisors(12, hosts);
        assert_eq!([near(5), near(7), near(13), near(100)], ["4 or 6", "6 or 12", "12", "12"]);
    }
}
