//! The facts that an index knows of a channel, and the length of an epoch that follows from them.

use pipemill_ring::protocol::EpochLength;
use pipemill_source::{KnownList, SkippedRecords};
use pipemill_types::{BatchAcross, BatchSize, Field, Tail};

use crate::{Channel, Source};

/// The facts that an index knows of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Indexed {
    /// The path of the index.
    pub file: String,
    /// The identity of the decoder that the index was made with.
    pub decoder: String,
    /// The decoder's options that the index was made with.
    pub options: Vec<(String, String)>,
    /// The fields of the records, with those that are added. Empty if there is no record.
    pub fields: Vec<Field>,
    /// Bytes of all values of all records, with those that are added, and with those of records
    /// that are skipped.
    pub value_bytes: u64,
    /// Identifies the places of the index, on which blocks depend.
    pub places: String,
    /// The objects, without the records that are skipped.
    pub list: KnownList,
    /// The records that are skipped.
    pub skipped: SkippedRecords,
    /// The objects with all records.
    pub all: KnownList,
}

impl Indexed {
    /// Identifies the data: a part of the index's digest.
    pub fn digest(&self) -> String {
        format!("{:016x}", self.all.0.identity().contents)
    }
}

impl Channel {
    /// The length of each epoch, with batches of this size that are divided among this many ranks.
    /// `None` if it is not known, or differs from epoch to epoch: the objects of a part differ if
    /// they are shuffled, without blocks, before they are divided.
    pub fn epoch_length(&self, batch: Option<BatchSize>, ranks: u32) -> Option<EpochLength> {
        let indexed = self.indexed.as_ref()?;
        if let Source::Mix(mix) = &self.source {
            let shards = mix.shards.as_ref()?;
            let of_ranks = |rounds| Some(rounds_of_ranks(rounds, batch?.tail, ranks.max(1).into()));
            return Some(EpochLength {
                records: shards.records().sum(),
                batches: of_ranks(shards.rounds()),
                least: of_ranks(shards.common_rounds()),
            });
        }
        let order = self.source.reading()?.order;
        let parts = indexed.list.records_of_parts(&order)?;
        let own = order.part.map_or(0, |part| part.index as usize);
        let batches = |part: &Vec<u64>| Some(batches(part, batch?, ranks.max(1).into()));
        Some(EpochLength {
            records: parts.get(own)?.iter().sum(),
            batches: parts.get(own).and_then(batches),
            least: order.part.and_then(|_| parts.iter().filter_map(batches).min()),
        })
    }
}

/// The number of batches that each rank gets of an epoch whose objects have these numbers of
/// records.
fn batches(objects: &[u64], size: BatchSize, ranks: u64) -> u64 {
    let of = |records: u64| match size.tail {
        Tail::Drop => records / size.records as u64,
        Tail::Keep | Tail::Pad => records.div_ceil(size.records as u64),
    };
    let batches: u64 = match size.across {
        BatchAcross::Epoch => of(objects.iter().sum()),
        BatchAcross::Object => objects.iter().map(|records| of(*records)).sum(),
    };
    rounds_of_ranks(batches, size.tail, ranks)
}

/// The number of batches that each of the ranks gets of this many batches.
fn rounds_of_ranks(batches: u64, tail: Tail, ranks: u64) -> u64 {
    // A round is full, or it is dropped or filled as a batch is.
    match tail {
        Tail::Drop => batches / ranks,
        Tail::Keep | Tail::Pad => batches.div_ceil(ranks),
    }
}
