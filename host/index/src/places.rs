//! Looks at the records of all objects, for their numbers, their places, and the lengths of values.

use std::sync::Arc;

use pipemill_channel::memory_sink::LookAtRecords;
use pipemill_channel::{Batch, StopReason};
use pipemill_types::{ABSENT, Column, Field, has_saved};

use crate::saver::Saver;
use crate::{Index, Place, Progress, ValueLengths};

/// Looks at the records of all objects, for their numbers and places.
#[derive(Default)]
pub(crate) struct Places {
    distance: u64,
    pub(crate) fields: Option<Arc<[Field]>>,
    lengths: Vec<ValueLengths>,
    /// By the object's number.
    pub(crate) objects: Vec<FoundPlaces>,
    /// Saves what was found, object after object.
    saver: Option<Saver>,
    /// The lengths of the objects that were saved.
    saved: Vec<ValueLengths>,
}

impl Places {
    /// Places are at least this many bytes from each other.
    pub(crate) fn at_distance(distance: u64, saver: Option<Saver>) -> Self {
        Self { distance, saver, ..Self::default() }
    }

    /// The lengths of all values, with those of older indexes.
    pub(crate) fn lengths(&self, older: &[Arc<Index>]) -> Vec<ValueLengths> {
        let mut all = self.lengths.clone();
        for older in older {
            add_lengths(&mut all, &older.header.open_lengths());
        }
        add_lengths(&mut all, &self.saved);
        all.into_iter().map(ValueLengths::finished).collect()
    }

    /// What was found of the objects so far, without the saver.
    pub(crate) fn take_progress(&mut self) -> Option<Progress> {
        self.saver.take().map(Saver::into_progress)
    }

    /// The first record of an object came: all objects before it are complete.
    fn begin_object(&mut self, number: usize) {
        let Some(saver) = &mut self.saver else { return };
        if !saver.is_due(number) {
            return;
        }
        let fields = self.fields.as_deref().unwrap_or_default();
        // They are not finished: more may be added.
        if saver.save(number, &self.objects, fields, self.lengths.clone()) {
            let none = vec![ValueLengths::of_none(); self.lengths.len()];
            let saved = std::mem::replace(&mut self.lengths, none.clone());
            if self.saved.is_empty() {
                self.saved = none;
            }
            add_lengths(&mut self.saved, &saved);
        }
    }
}

/// Adds the lengths of each field.
pub(crate) fn add_lengths(all: &mut [ValueLengths], others: &[ValueLengths]) {
    all.iter_mut().zip(others).for_each(|(one, other)| *one = one.with(*other));
}

/// The records and places of one object.
#[derive(Default, Clone)]
pub(crate) struct FoundPlaces {
    pub(crate) records: u64,
    pub(crate) places: Vec<Place>,
}

impl LookAtRecords for Places {
    fn schema(&mut self, fields: &Arc<[Field]>) {
        self.lengths = vec![ValueLengths::of_none(); fields.len()];
        self.fields = Some(fields.clone());
    }

    fn batch(&mut self, _: &[u8], batch: &Batch) -> Result<(), StopReason> {
        let position = &batch.start.position;
        // The number fits: the list is in memory.
        let number = position.object_number as usize;
        self.begin_object(number);
        if self.objects.len() <= number {
            self.objects.resize(number + 1, FoundPlaces::default());
        }
        let object = &mut self.objects[number];
        object.records = position.first_record + batch.records as u64;
        let last = object.places.last().map_or(0, |place| place.offset);
        // An index has no room for what decoders save.
        let is_plain = !has_saved(position.identity.text());
        if is_plain && position.offset >= last + self.distance.max(1) {
            object.places.push(Place {
                record: position.record_at_offset(),
                offset: position.offset,
                header: position.header,
                inflate: Box::default(),
            });
        }
        let fields = self.fields.as_deref().unwrap_or_default();
        for ((lengths, column), field) in self.lengths.iter_mut().zip(&batch.columns).zip(fields) {
            match field.fixed_size().and_then(|size| u32::try_from(size).ok()) {
                // All values have this size.
                Some(size) if !batch.absent => lengths.add(size, batch.records),
                _ => lengths.measure(column),
            }
        }
        Ok(())
    }
}

impl ValueLengths {
    /// Without a value.
    fn of_none() -> Self {
        Self { min: u32::MAX, max: 0, sum: 0, absent: 0 }
    }

    /// Before more values are added to those of this many records. Without a value, the smallest
    /// one is not 0.
    pub(crate) fn open_again(self, records: u64) -> Self {
        let has_none = self.sum == 0 && self.absent >= records;
        if has_none { Self { absent: self.absent, ..Self::of_none() } } else { self }
    }

    /// After the last value.
    pub(crate) fn finished(self) -> Self {
        Self { min: self.min.min(self.max), ..self }
    }

    /// With other values.
    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
            sum: self.sum.saturating_add(other.sum),
            absent: self.absent.saturating_add(other.absent),
        }
    }

    /// Adds values of this size.
    fn add(&mut self, size: u32, values: usize) {
        (self.min, self.max) = (self.min.min(size), self.max.max(size));
        self.sum += u64::from(size) * values as u64;
    }

    /// Adds the lengths of a column's values.
    fn measure(&mut self, column: &Column) {
        let lengths = self;
        if let Some(even) = column.even() {
            return lengths.add(even.size, even.records as usize);
        }
        let absent = column.offsets().iter().filter(|offset| **offset == ABSENT).count();
        lengths.absent += absent as u64;
        lengths.sum += column.lengths().iter().map(|length| u64::from(*length)).sum::<u64>();
        lengths.max = lengths.max.max(column.lengths().iter().copied().max().unwrap_or(0));
        let smallest = if absent == 0 {
            column.lengths().iter().copied().min()
        } else {
            let present = column.lengths().iter().zip(column.offsets());
            present.filter(|(_, offset)| **offset != ABSENT).map(|(length, _)| *length).min()
        };
        lengths.min = lengths.min.min(smallest.unwrap_or(u32::MAX));
    }
}
