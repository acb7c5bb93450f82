//! Takes stored calls in place of a decoder's.

use std::collections::BTreeMap;
use std::sync::Arc;

use pipemill_decode::DecodedRecords;
use pipemill_source::cache::{RecordCache, StoredCall, StoredRecords};
use pipemill_types::{AddedField, Fault, Field};

use super::index::{CallEnd, IndexReader, Mark};
use crate::batch::builder::BatchBuilder;
use crate::batch::cut::CutPoint;
use crate::pump::added_values::AddedValues;
use crate::pump::record_numbers::RecordNumbers;
use crate::stats::monitor::Monitor;
use crate::stats::stage_timer::Activity;
use crate::{Sink, StopReason};

/// How a replay has ended.
pub(crate) enum Replayed {
    /// All records of the object came from the cache.
    All,
    /// What follows is damaged.
    Damaged,
    /// The records can't be those of this object.
    Refused(Fault),
}

/// The records of an object that come from the cache.
pub(crate) struct Replay<'a, 'w, 's, S: Sink> {
    pub(crate) builder: &'a mut BatchBuilder<'w, 's, S>,
    pub(crate) added: &'a AddedValues<'a>,
    pub(crate) numbers: RecordNumbers,
    pub(crate) epoch: u32,
    pub(crate) cache: &'a RecordCache,
    pub(crate) monitor: Monitor<'a>,
}

impl<S: Sink> Replay<'_, '_, '_, S> {
    /// Appends the records. The builder is where they begin.
    pub(crate) fn run(&mut self, mut stored: StoredRecords) -> Result<Replayed, StopReason> {
        self.builder.begin_without_chunk();
        let (mut call, mut decoded) = (StoredCall::default(), DecodedRecords::default());
        let (mut metadata, mut fields) = (BTreeMap::new(), 0);
        loop {
            self.monitor.enter(Activity::Source);
            let end = match stored.next(&mut call) {
                Some(false) => break,
                Some(true) => read(&mut call, &mut decoded, &mut fields),
                None => None,
            };
            let Some(mut end) = end else {
                stored.remove();
                return Ok(Replayed::Damaged);
            };
            self.monitor.enter(Activity::Batch);
            if let Some(fields) = end.fields.take()
                && let Err(fault) = self.learn(&fields)
            {
                return Ok(Replayed::Refused(fault));
            }
            metadata = end.metadata.take().unwrap_or(metadata);
            if let Err(fault) = self.added.add_to(&mut decoded, self.numbers.next()) {
                return Ok(Replayed::Refused(fault));
            }
            self.append(&mut decoded, &metadata)?;
            self.end_call(&end)?;
        }
        self.builder.cut_at(CutPoint::ObjectEnd)?;
        Ok(Replayed::All)
    }

    fn learn(&mut self, fields: &Arc<[Field]>) -> Result<(), Fault> {
        let fields = AddedField::after(fields, self.added.fields)?;
        self.builder.writer_mut().set_schema(&fields)
    }

    fn append(
        &mut self,
        decoded: &mut DecodedRecords,
        metadata: &BTreeMap<String, String>,
    ) -> Result<(), StopReason> {
        self.numbers.pass(decoded);
        if self.builder.is_at_first_record() {
            self.builder.set_metadata(metadata);
        }
        let before = self.builder.counted();
        self.builder.append(decoded)?;
        let records = (self.builder.counted() - before) as usize;
        self.monitor.records_decoded(records, self.builder.writer().granted());
        Ok(())
    }

    fn end_call(&mut self, end: &CallEnd) -> Result<(), StopReason> {
        self.builder.pass(end.consumed);
        self.cache.counters().add_hit(end.consumed);
        self.monitor.bytes_read(usize::try_from(end.consumed).unwrap_or(usize::MAX));
        match &end.mark {
            Mark::None => {}
            Mark::Restart(header) if self.numbers.can_restart() => {
                self.builder.mark_restart(*header);
            }
            Mark::Restart(_) => {}
            Mark::Saved(saved) => self.builder.mark_saved(saved),
        }
        if self.builder.writer().wants_epoch_end(self.epoch) {
            return Err(StopReason::EpochEnded);
        }
        self.builder.cut_at(CutPoint::Decoded)
    }
}

/// Reads a call. `None` if it is none.
fn read(
    call: &mut StoredCall,
    decoded: &mut DecodedRecords,
    fields: &mut usize,
) -> Option<CallEnd> {
    let mut index = IndexReader(&call.index);
    let end = index.end()?;
    if let Some(declared) = &end.fields {
        (*decoded, *fields) = (DecodedRecords::of_fields(declared), declared.len());
    }
    decoded.clear();
    std::mem::swap(&mut decoded.payload, &mut call.payload);
    index.records(decoded, if decoded.columns.is_empty() { 0 } else { *fields })?;
    Some(end)
}
