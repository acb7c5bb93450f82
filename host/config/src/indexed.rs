//! The facts that an index knows of a channel, and the length of an epoch that follows from them.

use pipemill_channel::Until;
use pipemill_ring::protocol::EpochLength;
use pipemill_source::{KnownList, SkippedRecords};
use pipemill_types::{BatchAcross, BatchSize, Field, Tail};

use crate::{Channel, Mix, MixInput, Source};

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
    /// that are skipped. `None` if the index does not know them.
    pub value_bytes: Option<u64>,
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
    /// they are shuffled, without blocks, before they are divided, and the records of a mix that
    /// ends with its first channel are drawn.
    pub fn epoch_length(&self, batch: Option<BatchSize>, ranks: u32) -> Option<EpochLength> {
        let ranks = ranks.max(1).into();
        let batches = |part: &Vec<u64>| Some(batches(part, batch?, ranks));
        match &self.source {
            Source::Mix(mix) => match &mix.shards {
                Some(shards) => {
                    let of_ranks = |rounds| Some(rounds_of_ranks(rounds, batch?.tail, ranks));
                    Some(EpochLength {
                        records: shards.records().sum(),
                        batches: of_ranks(shards.rounds()),
                        least: of_ranks(shards.common_rounds()),
                    })
                }
                None => mix.records_of_parts()?.length(batches),
            },
            _ => self.records_of_parts()?.length(batches),
        }
    }

    /// The records of each part of the channel's objects.
    fn records_of_parts(&self) -> Option<RecordsOfParts> {
        let order = self.source.reading()?.order;
        let parts = self.indexed.as_ref()?.list.records_of_parts(&order)?;
        Some(RecordsOfParts { parts, own: order.part.map(|part| part.index as usize) })
    }
}

impl Mix {
    /// The records of each part of the mix.
    fn records_of_parts(&self) -> Option<RecordsOfParts> {
        match self.until {
            Until::First => None,
            // Each host draws as many.
            Until::Records(records) => {
                Some(RecordsOfParts { parts: vec![vec![records]], own: Some(0) })
            }
            Until::All => {
                let of_input = |input: &MixInput| input.channel.records_of_parts();
                let inputs = self.inputs.iter().map(of_input).collect::<Option<Vec<_>>>()?;
                RecordsOfParts::together(&inputs)
            }
        }
    }
}

/// For each part of the objects, the numbers of records that follow each other without a gap
/// between batches.
struct RecordsOfParts {
    parts: Vec<Vec<u64>>,
    /// The part of this host. `None`: there is only one part.
    own: Option<usize>,
}

impl RecordsOfParts {
    /// The records of several channels, which a host reads together. A channel without parts is
    /// read by all hosts. `None` if the channels are divided among different hosts.
    fn together(channels: &[Self]) -> Option<Self> {
        let divided = channels.iter().find(|one| one.own.is_some());
        let (count, own) = divided.map_or((1, None), |one| (one.parts.len(), one.own));
        let sum = |host: usize| {
            let part = |one: &Self| match one.own {
                Some(_) if (one.parts.len(), one.own) != (count, own) => None,
                Some(_) => one.parts.get(host).map(|part| part.iter().sum()),
                None => one.parts.first().map(|part| part.iter().sum::<u64>()),
            };
            channels.iter().map(part).sum::<Option<u64>>().map(|records| vec![records])
        };
        let parts = (0..count).map(sum).collect::<Option<Vec<_>>>()?;
        Some(Self { parts, own })
    }

    /// The length of an epoch, with the number of batches of each part.
    fn length(&self, batches: impl Fn(&Vec<u64>) -> Option<u64>) -> Option<EpochLength> {
        let own = self.parts.get(self.own.unwrap_or(0))?;
        Some(EpochLength {
            records: own.iter().sum(),
            batches: batches(own),
            least: self.own.and_then(|_| self.parts.iter().filter_map(&batches).min()),
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
