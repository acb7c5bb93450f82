//! Decodes several blocks at once: each thread decodes some of them, in their order.

use std::io;
use std::sync::Arc;

use pipemill_channel::{Channel, ChannelStats, Failure, Outcome};
use pipemill_source::{Block, KnownList, KnownObject, KnownObjects, SeekPoint};
use pipemill_types::{ErrorKind, Fault, ListIdentity, Position};

use crate::decoded::{BlockSink, DecodedBlock};
use crate::numbers::{RecordNumbers, WantedBlock};
use crate::spare::SpareMemory;
use crate::threads::in_threads;

/// Makes a channel that decodes the blocks of a list once, in their order, with one worker and
/// without a fixed number of records in a batch.
pub type MakeChannel = Box<dyn Fn(KnownList) -> io::Result<Channel> + Send + Sync>;

/// Decodes blocks.
pub(crate) struct BlockDecoder {
    list: KnownList,
    make: MakeChannel,
    threads: usize,
    /// Bytes of a block up to which all of its records are kept.
    limit: u64,
    spare: SpareMemory,
}

impl BlockDecoder {
    pub(crate) fn new(list: KnownList, make: MakeChannel, threads: usize, limit: u64) -> Self {
        let spare = SpareMemory::new(usize::try_from(limit / 2).unwrap_or(usize::MAX));
        Self { list, make, threads: threads.max(1), limit, spare }
    }

    /// Decodes these blocks. The result has them in the same order.
    ///
    /// # Errors
    /// The first failure, in the order of the blocks.
    pub(crate) fn decode(
        &self,
        wanted: &[WantedBlock],
        numbers: &RecordNumbers,
    ) -> Result<Vec<DecodedBlock>, Box<Failure>> {
        let of_thread = wanted.len().div_ceil(self.threads).max(1);
        let lists = wanted.chunks(of_thread).collect();
        let decoded = in_threads(lists, |list| self.decode_list(list, numbers));
        let mut blocks = Vec::with_capacity(wanted.len());
        for list in decoded {
            blocks.extend(list?);
        }
        Ok(blocks)
    }

    /// Decodes blocks one after the other.
    fn decode_list(
        &self,
        wanted: &[WantedBlock],
        numbers: &RecordNumbers,
    ) -> Result<Vec<DecodedBlock>, Box<Failure>> {
        let blocks = wanted.iter().map(|one| (one.key.object, one.block)).collect();
        let list = BlockList { list: self.list.clone(), blocks };
        let channel = (self.make)(KnownList::new(Arc::new(list)));
        let mut channel = channel.map_err(|error| {
            let fault = Fault::new(ErrorKind::Host, error.to_string(), "allow more threads");
            Box::new(Failure::new("", "", Position::epoch(0), fault))
        })?;
        let likely = wanted.iter().map(|one| numbers.likely_bytes(one)).max().unwrap_or(0);
        let mut sink = BlockSink::new(wanted, self.limit, likely, self.spare.clone());
        match channel.run(&mut sink, &ChannelStats::default()) {
            Outcome::Failed(failure) => Err(Box::new(failure)),
            // Nobody stops it: the process ends.
            Outcome::Ended | Outcome::Stopped | Outcome::Restart => Ok(sink.blocks),
        }
    }
}

/// Blocks of the objects of a list, as a list of objects with one block each.
#[derive(Debug)]
struct BlockList {
    list: KnownList,
    /// The number of each block's object, and the block.
    blocks: Vec<(u64, Block)>,
}

impl BlockList {
    fn block(&self, number: u64) -> Option<(u64, Block)> {
        self.blocks.get(usize::try_from(number).ok()?).copied()
    }
}

impl KnownObjects for BlockList {
    fn count(&self) -> u64 {
        self.blocks.len() as u64
    }

    fn get(&self, number: u64) -> Option<KnownObject> {
        self.list.0.get(self.block(number)?.0)
    }

    fn short_name(&self, number: u64) -> Option<&str> {
        self.list.0.short_name(self.block(number)?.0)
    }

    fn size(&self, number: u64) -> u64 {
        self.block(number).map_or(0, |(object, _)| self.list.0.size(object))
    }

    fn blocks(&self, number: u64, _: u64) -> Vec<Block> {
        self.block(number).map(|(_, block)| block).into_iter().collect()
    }

    fn seek_point(&self, number: u64, offset: u64) -> Result<Option<SeekPoint>, String> {
        let Some((object, _)) = self.block(number) else { return Ok(None) };
        self.list.0.seek_point(object, offset)
    }

    fn seek_point_after(&self, number: u64, offset: u64) -> Result<Option<SeekPoint>, String> {
        let Some((object, _)) = self.block(number) else { return Ok(None) };
        self.list.0.seek_point_after(object, offset)
    }

    fn records(&self, number: u64) -> Option<u64> {
        Some(self.block(number)?.1.records)
    }

    fn first_record(&self, number: u64) -> u64 {
        self.block(number).map_or(0, |(object, _)| self.list.0.first_record(object))
    }

    fn identity(&self) -> ListIdentity {
        self.list.0.identity()
    }

    fn memory(&self) -> u64 {
        (self.blocks.len() * size_of::<(u64, Block)>()) as u64
    }
}
