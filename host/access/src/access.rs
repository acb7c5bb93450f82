//! Answers requests: finds the blocks, decodes the missing ones, and picks the records.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use pipemill_channel::{Failure, row_sizes};
use pipemill_ring::host::RingError;
use pipemill_source::KnownList;
use pipemill_types::{BatchPosition, ErrorKind, Fault, Field, Position};

use crate::cache::Cache;
use crate::decoded::DecodedBlock;
use crate::decoding::{BlockDecoder, MakeChannel};
use crate::lent::Lent;
use crate::numbers::{BlockKey, RecordNumbers, RecordPlace, WantedBlock};
use crate::picked::{Chosen, Picked};

/// The records of an index, by their numbers.
pub struct Access {
    name: String,
    numbers: RecordNumbers,
    list: KnownList,
    /// The fields of the answers, in their order.
    fields: Vec<Chosen>,
    decoder: BlockDecoder,
    cache: Cache<BlockKey, Arc<DecodedBlock>>,
    /// Number of threads that decode, or copy a large answer.
    threads: usize,
    /// Bytes of the values in an answer, unless it has a single record.
    most: u64,
    /// Number of the next answer.
    next: u64,
    lent: Lent,
}

/// Limits of memory, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct AccessLimits {
    /// Of the decoded blocks that are kept.
    pub cache: u64,
    /// Of the values in an answer, unless it has a single record.
    pub answer: u64,
}

/// An answer: a batch with the first records that were asked for, or with all of them.
#[derive(Debug)]
pub struct Answer {
    /// Number of records, at least 1.
    pub records: u32,
    /// Its memory, in the layout of a slot.
    pub memory: Arc<OwnedFd>,
    /// Bytes of the memory that the batch takes.
    pub bytes: u64,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// A number is not that of a record.
    #[error("record {number} was asked for, and there are {records}")]
    NoRecord {
        /// The number.
        number: u64,
        /// Number of records.
        records: u64,
    },
    /// A block can't be decoded.
    #[error(transparent)]
    Failed(#[from] Box<Failure>),
    /// The kernel does not grant the memory of the answer.
    #[error(transparent)]
    Memory(#[from] RingError),
}

/// The decoded blocks of a request.
type Blocks = HashMap<BlockKey, Arc<DecodedBlock>>;

impl Access {
    /// The records of this list, whose fields are known. Answers have the fields of the numbers
    /// `chosen`, each of which is below that of all fields. `name` is that of the channels that
    /// `make` makes. `threads` of them run at
    /// once.
    pub fn new(
        name: &str,
        list: KnownList,
        (fields, chosen): (&[Field], &[usize]),
        make: MakeChannel,
        threads: usize,
        limits: AccessLimits,
    ) -> Self {
        let AccessLimits { cache, answer } = limits;
        let sizes = row_sizes(fields);
        let of = |number: &usize| Chosen { number: *number, row_size: sizes[*number] };
        Self {
            name: name.to_owned(),
            numbers: RecordNumbers::new(list.clone()),
            fields: chosen.iter().map(of).collect(),
            decoder: BlockDecoder::new(list.clone(), make, threads, cache),
            list,
            cache: Cache::new(cache),
            threads: threads.max(1),
            most: answer,
            next: 0,
            lent: Lent::default(),
        }
    }

    /// Number of records.
    pub fn records(&self) -> u64 {
        self.numbers.count()
    }

    /// Notes that the client does not read the answer with this number any more: its memory may
    /// have another one.
    pub fn give_back(&mut self, answer: u64) {
        self.lent.give_back(answer);
    }

    /// The first of these records, or all of them, in this order.
    ///
    /// # Errors
    /// See [`AccessError`].
    pub fn answer(&mut self, numbers: &[u64]) -> Result<Answer, AccessError> {
        let mut asked = numbers;
        loop {
            match self.try_answer(asked)? {
                Some(answer) => return Ok(answer),
                // The values of all of them take too much memory.
                None => asked = &asked[..asked.len().div_ceil(2)],
            }
        }
    }

    /// All of these records. `None` if there are several, and their values take too much memory.
    fn try_answer(&mut self, numbers: &[u64]) -> Result<Option<Answer>, AccessError> {
        let (places, wanted) = self.numbers.places(numbers).ok_or_else(|| {
            let records = self.records();
            let number = numbers.iter().copied().find(|number| *number >= records);
            AccessError::NoRecord { number: number.unwrap_or(records), records }
        })?;
        let is_one = numbers.len() == 1;
        let Some(blocks) = self.blocks(wanted, is_one)? else { return Ok(None) };
        let find = |place: &RecordPlace| blocks.get(&place.block)?.find(place.record);
        let found: Option<Vec<_>> = places.iter().map(find).collect();
        let rows = found.ok_or_else(|| self.missing(&places))?;
        let picked = Picked { rows, fields: &self.fields };
        if !is_one && picked.payload() as u64 > self.most {
            return Ok(None);
        }
        let first = &places[0];
        let object = self.list.0.get(first.block.object).unwrap_or_default();
        let position = BatchPosition {
            object_number: first.block.object,
            object: object.name,
            first_record: first.record,
            ..BatchPosition::default()
        };
        let answer = picked.seal(self.next, position, &mut self.lent, self.threads)?;
        self.next += 1;
        Ok(Some(answer))
    }

    /// The blocks, or of each the wanted records, if all blocks together take more memory than may
    /// be kept. `None` if even these take too much. With `is_one`, nothing is too much.
    fn blocks(
        &mut self,
        wanted: Vec<WantedBlock>,
        is_one: bool,
    ) -> Result<Option<Blocks>, AccessError> {
        let likely = |one: &WantedBlock| self.numbers.likely_bytes(one);
        let (limit, most) = (self.cache.limit(), self.most);
        let keeps_all = wanted.iter().map(likely).fold(0, u64::saturating_add) <= limit;
        let (mut blocks, mut missing, mut bytes) = (Blocks::new(), Vec::new(), 0);
        let mut add = |wanted: &WantedBlock, block: Arc<DecodedBlock>| {
            let block = match keeps_all && !block.is_partial {
                true => block,
                false => Arc::new(block.only(&wanted.records).unwrap_or_default()),
            };
            bytes += if block.is_partial { block.bytes } else { 0 };
            blocks.insert(wanted.key, block);
            is_one || bytes <= most
        };
        for one in wanted {
            match self.cache.get(one.key) {
                Some(block) if !add(&one, block.clone()) => return Ok(None),
                Some(_) => {}
                None => missing.push(one),
            }
        }
        let mut rest = missing.as_slice();
        while !rest.is_empty() {
            let mut sum = 0_u64;
            let fits = |one: &WantedBlock| {
                sum = sum.saturating_add(self.numbers.likely_bytes(one));
                sum > limit / 2
            };
            let count = rest.iter().position(fits).unwrap_or(rest.len()).max(1);
            let (these, others) = rest.split_at(count);
            rest = others;
            let decoded = self.decoder.decode(these, &self.numbers)?;
            for (one, block) in these.iter().zip(decoded) {
                let block = Arc::new(block);
                if !block.is_partial {
                    self.cache.insert(one.key, block.clone(), block.bytes);
                }
                if !add(one, block) {
                    return Ok(None);
                }
            }
        }
        Ok(Some(blocks))
    }

    /// The failure of a block that does not have its records.
    fn missing(&self, places: &[RecordPlace]) -> Box<Failure> {
        let object = places.first().and_then(|place| self.list.0.get(place.block.object));
        let position = Position { object: object.map(|object| object.name), ..Position::epoch(0) };
        let message = "a record of the index was not found where the index says";
        let fault = Fault::new(ErrorKind::Refused, message, "make the index again");
        Box::new(Failure::new(&self.name, "", position, fault))
    }
}
