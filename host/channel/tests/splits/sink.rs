//! A sink with small memories that keeps every record, and checks each batch as it comes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use pipemill_channel::{Batch, SinkDelivery, SinkMemory, StopReason};
use pipemill_ring::layout::index_room;
use pipemill_source::SkippedRecords;
use pipemill_types::{ABSENT, AddedField, BatchMemory, ChunkMemory, Column, Field, SharedPart};

use crate::batches::{Cut, check_dense};
use crate::host::Setup;
use crate::memory::{Memory, Slots};
use crate::source::first_in_index;

/// Bytes of the longest name of an object.
const MAX_NAME_BYTES: usize = 16;

/// One record, copied out of its batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    pub epoch: u32,
    pub object: String,
    pub number: u64,
    pub start: u64,
    pub metadata: String,
    pub fields: Vec<Option<Vec<u8>>>,
}

/// Memory of a batch that is being filled.
pub struct Filled {
    memory: Memory,
    /// The index that was written.
    index: Option<Vec<Column>>,
    /// A clone, as long as this lives.
    _filled: Arc<()>,
}

impl AsRef<[u8]> for Filled {
    fn as_ref(&self) -> &[u8] {
        self.memory.as_ref()
    }
}

impl AsMut<[u8]> for Filled {
    fn as_mut(&mut self) -> &mut [u8] {
        self.memory.as_mut()
    }
}

impl ChunkMemory for Filled {
    fn shared(&self) -> Option<SharedPart<'_>> {
        self.memory.shared()
    }
}

impl BatchMemory for Filled {
    fn write_index(&mut self, payload: usize, texts: usize, columns: &[Column]) -> bool {
        let records = columns[0].len();
        let room = index_room(payload, texts, columns.len(), records);
        // As a ring: only slots have a place for it.
        let fits = !self.memory.is_large() && payload + room <= self.as_ref().len();
        self.index = fits.then(|| columns.to_vec());
        fits
    }

    fn take_index(&mut self) -> Option<Vec<Column>> {
        self.index.take()
    }
}

/// Keeps the batches that it is granted.
pub struct Collector {
    /// Bytes of a memory, as a ring's slot has.
    slot: usize,
    /// The memories that decoders may map, if they may.
    slots: Option<Arc<Slots>>,
    /// Whether the index takes its part of the memory, as it does in a ring.
    index_inside: bool,
    has_demand: bool,
    leaves_after: Option<usize>,
    /// Has a clone for each memory that is filled for the next batch.
    next: Arc<()>,
    /// Has a clone for each memory that is filled concurrently, and the largest number of these.
    extra: (Arc<()>, usize),
    pub batches: usize,
    /// Number of fields that the host adds.
    added: usize,
    /// The numbers of records by their objects and starts, as the added fields say.
    places: BTreeMap<(String, u64), u64>,
    /// The records that are skipped.
    skipped: SkippedRecords,
    /// The fields of the decoder.
    pub schema: Option<Arc<[Field]>>,
    pub records: Vec<Kept>,
    /// Number of the next record of each object, by epoch and name.
    numbers: HashMap<(u32, String), u64>,
    /// The batches, if they have a fixed size.
    pub cuts: Vec<Cut>,
    has_size: bool,
    has_window: bool,
    pub epochs: Vec<(u32, bool)>,
}

impl Collector {
    pub fn new(way: &Setup) -> Self {
        Self {
            slot: way.slot,
            slots: way.is_shared.then(|| Slots::new(way.slot)),
            index_inside: way.index_inside,
            has_demand: way.has_demand,
            leaves_after: way.leaves_after,
            next: Arc::new(()),
            extra: (Arc::new(()), way.extra),
            batches: 0,
            added: if way.adds_fields() { AddedField::ALL.len() } else { 0 },
            places: BTreeMap::new(),
            skipped: way.skipped.clone(),
            schema: None,
            records: Vec::new(),
            numbers: HashMap::new(),
            cuts: Vec::new(),
            has_size: way.batch.is_some(),
            has_window: way.shuffle.is_some(),
            epochs: Vec::new(),
        }
    }

    fn slot(&self) -> Memory {
        self.slots.as_ref().map_or_else(|| Memory::private(self.slot), Slots::take)
    }

    /// Memory for the next batch. Nobody keeps any for other batches, or a ring would have none
    /// left.
    fn for_next(&self, memory: Memory) -> Filled {
        assert!(Arc::strong_count(&self.next) <= 2, "two memories beyond the extra ones");
        Filled { memory, index: None, _filled: self.next.clone() }
    }

    fn next_number(&self, batch: &Batch) -> u64 {
        let object = (batch.epoch(), batch.start.position.object.clone());
        self.numbers.get(&object).copied().unwrap_or(0)
    }

    /// Checks the values of the added fields, and removes them. `place` is the object and the
    /// number of the record, if they are known.
    fn without_added(
        &mut self,
        mut fields: Vec<Option<Vec<u8>>>,
        start: u64,
        place: Option<(&str, u64)>,
    ) -> Vec<Option<Vec<u8>>> {
        if self.added == 0 {
            return fields;
        }
        let mut added = fields.split_off(fields.len() - self.added).into_iter().flatten();
        let index = added.next().and_then(|value| value.try_into().ok());
        let index = u64::from_le_bytes(index.expect("a number of 8 bytes"));
        let object = added.next().and_then(|value| String::from_utf8(value).ok()).expect("a name");
        let ordinal =
            object.trim_start_matches("object ").parse().expect("the number of an object");
        let number = index.checked_sub(first_in_index(ordinal)).expect("a number of its object");
        assert!(!self.skipped.contains(index), "record {index} is skipped");
        if let Some((name, expected)) = place {
            let first = first_in_index(ordinal);
            let kept = self.skipped.kept_before(index) - self.skipped.kept_before(first);
            assert_eq!((object.as_str(), kept), (name, expected), "where the record is from");
        }
        // A start may be that of several records, and of no byte.
        let before = self.places.range(..(object.clone(), start)).next_back();
        let is_of_object = |((name, _), _): &(&(String, u64), &u64)| *name == object;
        let least = before.filter(is_of_object).map_or(0, |(_, number)| *number);
        assert!(number >= least, "record {number} of {object} begins at {start}, after {least}");
        self.places.insert((object, start), number);
        fields
    }

    /// Keeps a batch of a fixed size.
    fn keep_cut(&mut self, memory: &Memory, batch: &Batch) {
        let fields = self.schema.as_ref().expect("the schema comes before the first batch");
        let added = [Some(size_of::<u64>()), None];
        let sizes = fields.iter().map(Field::fixed_size).chain(added).take(batch.columns.len());
        check_dense(memory, batch, &sizes.collect::<Vec<_>>());
        let mut records = Vec::new();
        for record in 0..batch.records {
            let fields = batch.columns.iter().map(|column| {
                let (offset, length) = column.get(record);
                (offset != ABSENT)
                    .then(|| memory.as_ref()[offset as usize..][..length as usize].to_vec())
            });
            let start = batch.starts[record];
            records.push((start, self.without_added(fields.collect(), start, None)));
        }
        self.cuts.push(Cut { start: batch.start.clone(), records, padding: batch.padding });
    }

    /// Checks that hold for every batch.
    fn check(&self, memory: &Filled, batch: &Batch) {
        let own = self.schema.as_ref().expect("the schema comes before the first batch").len();
        let fields = own + self.added;
        assert!(batch.records > 0, "an empty batch");
        assert_eq!(batch.columns.len(), fields, "columns");
        assert_eq!(batch.starts.len(), batch.records, "starts");
        if !self.has_size {
            let expected = self.next_number(batch);
            assert_eq!(batch.start.position.first_record, expected, "number of the first record");
        }
        // With a window, the first record may be of another object.
        assert!(
            self.has_window || batch.start.object_offset <= batch.starts[0],
            "object_offset behind the first record"
        );
        let room = self.room(memory, batch.records, fields, batch.start.metadata.len());
        let fits = room.is_some_and(|room| batch.payload <= room);
        assert!(fits, "{} records and {} bytes in {room:?}", batch.records, batch.payload);
        for column in &batch.columns {
            assert_eq!(column.offsets().len(), batch.records, "offsets");
            assert_eq!(column.lengths().len(), batch.records, "lengths");
        }
        let absent = batch.columns.iter().flat_map(Column::offsets).any(|at| *at == ABSENT);
        assert_eq!(batch.absent, absent, "whether a field is absent");
    }
}

impl SinkMemory for Collector {
    type Memory = Filled;

    fn memory(&mut self) -> Result<Filled, StopReason> {
        Ok(self.for_next(self.slot()))
    }

    fn free_memory(&mut self) -> Option<Filled> {
        self.extra_memory()
    }

    fn extra_memory(&mut self) -> Option<Filled> {
        let (filled, most) = &self.extra;
        let is_there = Arc::strong_count(filled) <= *most;
        is_there.then(|| Filled { memory: self.slot(), index: None, _filled: filled.clone() })
    }

    fn dedicated_memory(&mut self, payload: usize, _: usize) -> Result<Filled, StopReason> {
        Ok(self.for_next(Memory::large(payload)))
    }

    fn free_dedicated_memory(&mut self, payload: usize, _: usize) -> Option<Filled> {
        let (filled, most) = &self.extra;
        let is_there = Arc::strong_count(filled) <= *most;
        let memory = || Memory::large(payload);
        is_there.then(|| Filled { memory: memory(), index: None, _filled: filled.clone() })
    }

    fn grow(&mut self, memory: &mut Filled, payload: usize) -> Result<(), StopReason> {
        memory.memory.grow(payload);
        Ok(())
    }

    fn room(
        &self,
        memory: &Filled,
        records: usize,
        fields: usize,
        metadata: usize,
    ) -> Option<usize> {
        if memory.memory.is_large() || !self.index_inside {
            return Some(memory.as_ref().len());
        }
        let texts = MAX_NAME_BYTES + metadata;
        memory.as_ref().len().checked_sub(index_room(0, texts, fields, records).saturating_add(64))
    }
}

impl SinkDelivery for Collector {
    fn schema(&mut self, fields: &Arc<[Field]>) {
        assert!(self.schema.is_none(), "the schema was said twice");
        let (own, added) = fields.split_at(fields.len() - self.added);
        let names = added.iter().map(|field| field.name.as_str());
        assert!(names.eq(AddedField::ALL.iter().map(|one| one.name()).take(self.added)));
        self.schema = Some(own.into());
    }

    fn grant(&mut self, mut memory: Filled, batch: &mut Batch) -> Result<(), StopReason> {
        if batch.columns.is_empty() {
            batch.columns = memory.take_index().expect("the index was written");
        }
        self.check(&memory, batch);
        self.batches += 1;
        let payload = &memory.as_ref()[..batch.payload];
        if self.has_size {
            self.keep_cut(&memory.memory, batch);
            return Ok(());
        }
        let object = (batch.epoch(), batch.start.position.object.clone());
        self.numbers.insert(object, batch.start.position.first_record + batch.records as u64);
        for record in 0..batch.records {
            let fields = batch.columns.iter().map(|column| {
                let (offset, length) = column.get(record);
                (offset != ABSENT).then(|| payload[offset as usize..][..length as usize].to_vec())
            });
            let number = batch.start.position.first_record + record as u64;
            let place = Some((&*batch.start.position.object, number));
            let fields = self.without_added(fields.collect(), batch.starts[record], place);
            self.records.push(Kept {
                epoch: batch.epoch(),
                object: batch.start.position.object.clone(),
                number,
                start: batch.starts[record],
                metadata: batch.start.metadata.clone(),
                fields,
            });
        }
        Ok(())
    }

    fn has_demand(&self) -> bool {
        self.has_demand
    }

    fn wants_epoch_end(&self, epoch: u32) -> bool {
        self.leaves_after.is_some_and(|after| self.batches >= after && epoch == 0)
    }

    fn end_epoch(&mut self, epoch: u32, early: bool) -> Result<(), StopReason> {
        self.epochs.push((epoch, early));
        Ok(())
    }
}
