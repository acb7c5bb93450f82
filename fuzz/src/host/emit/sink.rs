//! The two ends of the target's channel: objects in memory, and a sink that keeps all records.

use std::sync::Arc;
use std::time::Duration;

use pipemill_channel::{Batch, SinkDelivery, SinkMemory, StopReason};
use pipemill_ring::layout::index_room;
use pipemill_source::{Input, Object, ReadOutcome, Source, SourceError, SourceEvent};
use pipemill_types::{ABSENT, Field, ObjectFacts, ObjectIdentity};

use super::Record;

/// A source of equal objects.
pub(super) struct Objects {
    events: std::vec::IntoIter<SourceEvent>,
}

impl Objects {
    /// One epoch of `count` objects of these bytes.
    pub(super) fn new(bytes: &[u8], count: usize) -> Self {
        let object = |number: usize| Object {
            epoch: 0,
            ordinal: number as u64,
            name: format!("object {number}"),
            identity: ObjectIdentity::default(),
            facts: ObjectFacts::default(),
            companions: Vec::new(),
            block: None,
            known: None,
            input: Box::new(Bytes(bytes.to_vec())),
        };
        let objects = (0..count).map(|number| SourceEvent::Object(object(number)));
        let events: Vec<_> = objects.chain([SourceEvent::EpochEnd(0)]).collect();
        Self { events: events.into_iter() }
    }
}

impl Source for Objects {
    fn next(&mut self) -> Result<SourceEvent, SourceError> {
        Ok(self.events.next().unwrap_or(SourceEvent::End))
    }

    fn end_epoch(&mut self) {}
}

struct Bytes(Vec<u8>);

impl Input for Bytes {
    fn read(&mut self, buf: &mut [u8], _: Option<Duration>) -> Result<ReadOutcome, SourceError> {
        if self.0.is_empty() {
            return Ok(ReadOutcome::End);
        }
        let count = self.0.len().min(buf.len());
        buf[..count].copy_from_slice(&self.0[..count]);
        self.0.drain(..count);
        Ok(ReadOutcome::Bytes(count))
    }
}

/// Keeps the batches that are granted.
pub(super) struct Kept {
    /// Size of a batch's memory with its index, in bytes.
    memory: usize,
    pub(super) records: Vec<Record>,
}

impl Kept {
    /// A sink whose memories have this many bytes in addition to the index of one record.
    pub(super) fn new(memory: usize) -> Self {
        Self { memory: memory + index_room(0, 0, 3, 1) + 64, records: Vec::new() }
    }
}

impl SinkMemory for Kept {
    type Memory = Vec<u8>;

    fn memory(&mut self) -> Result<Vec<u8>, StopReason> {
        Ok(vec![0xdb; self.memory])
    }

    fn dedicated_memory(&mut self, payload: usize, fields: usize) -> Result<Vec<u8>, StopReason> {
        Ok(vec![0xdb; payload + index_room(0, 0, fields, 1) + 64])
    }

    fn grow(&mut self, memory: &mut Vec<u8>, payload: usize) -> Result<(), StopReason> {
        memory.resize(payload + index_room(0, 0, 3, 1) + 64, 0xdb);
        Ok(())
    }

    fn room(
        &self,
        memory: &Vec<u8>,
        records: usize,
        fields: usize,
        metadata: usize,
    ) -> Option<usize> {
        memory.len().checked_sub(index_room(0, metadata, fields, records).saturating_add(64))
    }
}

impl SinkDelivery for Kept {
    fn schema(&mut self, _: &Arc<[Field]>) {}

    fn grant(&mut self, memory: Vec<u8>, batch: &mut Batch) -> Result<(), StopReason> {
        assert!(batch.records > 0, "an empty batch");
        assert_eq!(
            batch.start.position.first_record,
            self.records.len() as u64,
            "number of the first record"
        );
        assert!(batch.starts.is_sorted() && batch.starts.len() == batch.records, "{batch:?}");
        let room =
            self.room(&memory, batch.records, batch.columns.len(), batch.start.metadata.len());
        assert!(room.is_some_and(|room| batch.payload <= room), "{} in {room:?}", batch.payload);
        for record in 0..batch.records {
            let field = |column: &pipemill_types::Column| {
                let (offset, length) = column.get(record);
                let bytes =
                    || memory[..batch.payload][offset as usize..][..length as usize].to_vec();
                (offset != ABSENT).then(bytes)
            };
            self.records.push(batch.columns.iter().map(field).collect());
        }
        Ok(())
    }

    fn has_demand(&self) -> bool {
        false
    }

    fn wants_epoch_end(&self, _: u32) -> bool {
        false
    }

    fn end_epoch(&mut self, _: u32, _: bool) -> Result<(), StopReason> {
        Ok(())
    }
}
