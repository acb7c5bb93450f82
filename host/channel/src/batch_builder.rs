//! Owns the memory into which an object's bytes are read, the batch of its records, and the sink.
//! It alone decides, by the rule in `cut`, when a batch leaves.
//!
//! **In place**: bytes are read right after the chunk, into the memory of the batch. Records that
//! the decoder only refers to are never copied. **Copying**: a decoder that makes the bytes of its
//! records gets its input in a private buffer, and only what it made goes into the batch. The last
//! call of the decoder selects between the two.
//!
//! **Of a fixed size**: a channel may say how many records a batch has. Then a batch never leaves
//! for want of memory: its memory grows. The records of one call of the decoder that belong to the
//! next batch are copied; reads that end close to the end of a batch make that few.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use pipemill_decode::{Bytes, DecodedRecords, IN_PAYLOAD};
use pipemill_source::Object;
use pipemill_types::{BatchSize, Column, Fault, Field, Tail};

use super::batch::BatchStart;
use super::copied_run::{CopiedRun, ValueSpan};
use super::cut::{CutPoint, Fill, WARM_TIME, is_cut};
use super::dense::row_sizes;
use super::density::Density;
use super::field_names::other_schema;
use super::picked::PickedRecords;
use super::sink::DeliveryCounts;
use super::{Batch, Sink, StopReason};

/// A chunk or payload in the batch's memory starts at a multiple of this many bytes: a cache line,
/// and the alignment that Arrow prefers.
pub(super) const ALIGN: usize = 64;
/// The index of a dedicated buffer takes memory beside it. Records whose index takes more than this,
/// in bytes, go into slots instead.
const MAX_DEDICATED_INDEX: usize = 4 << 20;
/// A smaller read, in bytes, is not worth a system call: the batch leaves instead.
pub(super) const MIN_READ: usize = 4 << 10;

/// The chunk and the batch of a channel, and the sink that batches go to.
pub(super) struct BatchBuilder<'s, S: Sink> {
    sink: &'s mut S,
    /// The number of records of each batch, where the channel has one.
    size: Option<BatchSize>,
    /// The fields of the records, once a decoder has declared them.
    schema: Option<Arc<[Field]>>,
    /// Bytes of each field's values, where they have a fixed size.
    row_sizes: Vec<Option<usize>>,
    /// The batch's memory. It is cloned only for the time of a call of the decoder.
    memory: Option<Arc<S::Memory>>,
    /// The memory is a dedicated buffer, for a record or a batch of a fixed size that fits into no
    /// other memory. Without a size, the batch leaves as soon as it holds a record.
    dedicated: bool,
    /// Somewhat more bytes than the largest batch of a fixed size needed so far that did not fit a
    /// slot; 0 without one. The next batches begin in a dedicated buffer of this size.
    grown: usize,
    /// The private buffer. It holds the chunk while copying.
    input: Arc<Vec<u8>>,
    /// Where the chunk lies: in the batch's memory, or else in `input`.
    in_place: bool,
    /// Where the next bytes are to be read: into `input`, or else into the batch's memory.
    prefers_copying: bool,
    /// Where the chunk starts, in the batch's memory or in `input`.
    at: usize,
    /// Bytes of the chunk.
    len: usize,
    batch: Batch,
    /// When the batch got its first record.
    began: Instant,
    /// The object, and the last place in it from which its decoder can decode again:
    /// `restart_offset`, with the record of number `first_record`. Batches take this over.
    object: BatchStart,
    /// Byte offset of the chunk in the object.
    position: u64,
    /// Records of the object so far.
    records: u64,
    density: Density,
    /// What has become of the records. Not in use if the sink has counts of its own.
    counts: Arc<DeliveryCounts>,
}

impl<'s, S: Sink> BatchBuilder<'s, S> {
    /// A builder without a batch.
    pub(super) fn new(sink: &'s mut S, size: Option<BatchSize>) -> Self {
        Self {
            sink,
            size,
            schema: None,
            row_sizes: Vec::new(),
            memory: None,
            dedicated: false,
            grown: 0,
            input: Arc::default(),
            in_place: true,
            prefers_copying: false,
            at: 0,
            len: 0,
            batch: Batch::default(),
            began: Instant::now(),
            object: BatchStart::default(),
            position: 0,
            records: 0,
            density: Density::default(),
            counts: Arc::default(),
        }
    }

    /// A builder that gets no input, only records that were picked out of others: see
    /// [`fill`](Self::fill).
    pub(super) fn of_picked(sink: &'s mut S, size: Option<BatchSize>) -> Self {
        Self { in_place: false, ..Self::new(sink, size) }
    }

    /// The counts of the batches that leave.
    pub(super) fn counts(&self) -> &Arc<DeliveryCounts> {
        self.sink.counts().unwrap_or(&self.counts)
    }

    /// Begins an object. A batch of a fixed size may hold records of the object before it.
    pub(super) fn begin_object(&mut self, object: &Object) {
        let epoch = object.epoch;
        self.len = 0;
        self.jump_to(0, 0);
        self.object.object.clone_from(&object.name);
        self.object.identity.clone_from(&object.identity);
        self.object.object_number = object.ordinal;
        self.object.metadata.clear();
        (self.object.restart_header, self.object.restart_offset) = (0, 0);
        self.object.first_record = 0;
        if self.size.is_none() || self.batch.epoch != epoch {
            self.batch.restart();
        }
        self.batch.epoch = epoch;
        self.at = if self.in_place { self.batch.payload.next_multiple_of(ALIGN) } else { 0 };
    }

    /// Objects before had these fields.
    pub(super) fn expect_schema(&mut self, fields: &Arc<[Field]>) {
        self.schema = Some(fields.clone());
        self.row_sizes = row_sizes(fields);
    }

    /// The fields of the objects so far, once one was declared.
    pub(super) fn schema(&self) -> Option<&[Field]> {
        self.schema.as_deref()
    }

    /// Takes the fields of the object's records. The sink gets them once, before the first batch.
    ///
    /// # Errors
    /// An earlier object had other fields.
    pub(super) fn set_schema(&mut self, fields: &Arc<[Field]>) -> Result<(), Fault> {
        match &self.schema {
            Some(known) if known != fields => return Err(other_schema(known, fields)),
            Some(_) => {}
            None => {
                self.sink.schema(fields);
                self.schema = Some(fields.clone());
                self.row_sizes = row_sizes(fields);
            }
        }
        self.batch.columns.resize_with(fields.len(), Default::default);
        Ok(())
    }

    /// Takes facts about the object. It must be called before the object's first record.
    pub(super) fn set_metadata(&mut self, facts: &BTreeMap<String, String>) {
        if !facts.is_empty() {
            self.object.metadata = serde_json::json!(facts).to_string();
        }
    }

    /// The decoder can decode again from the start of the chunk, after the object's first `header`
    /// bytes.
    pub(super) fn mark_restart(&mut self, header: u64) {
        // A position can't say more. Decoding from an earlier place is slower, but right.
        let Ok(header) = u32::try_from(header) else { return };
        self.object.restart_header = header;
        (self.object.restart_offset, self.object.first_record) = (self.position, self.records);
    }

    /// Whether the decoder can decode again from the start of the chunk: the bytes of the header that
    /// it needs for that.
    pub(super) fn restart_here(&self) -> Option<u64> {
        let is_here =
            self.object.restart_offset == self.position && self.object.first_record == self.records;
        (is_here && self.position > 0).then_some(self.object.restart_header.into())
    }

    /// The chunk begins at `offset` in the object from now on, with the record of number `record`.
    /// Must not be called while there are bytes in the chunk.
    pub(super) fn jump_to(&mut self, offset: u64, record: u64) {
        (self.position, self.records) = (offset, record);
        self.density = Density::of_object_from(offset, record);
    }

    /// Leaves out this many records from here on: they were given already.
    pub(super) fn pass_over(&mut self, records: u64) {
        self.counts().passed_over.set(records);
    }

    /// Records that the caller has to leave out: none if the sink does.
    pub(super) fn take_passed_over(&mut self) -> u64 {
        self.counts.passed_over.take(u64::MAX)
    }

    /// Records that are still to be left out, and have not been decoded.
    pub(super) fn left_to_pass_over(&self) -> u64 {
        // Without a window, the batch is empty as long as records are left out.
        let in_batch = self.batch.records as u64;
        let counts = self.counts();
        counts.passed_over.get().saturating_sub(counts.in_window.get() + in_batch)
    }

    /// Waits until a window has done with what it was given.
    pub(super) fn settle(&mut self) -> Result<(), StopReason> {
        self.sink.settle()
    }

    /// Whether a consumer waits for a batch.
    pub(super) fn has_demand(&self) -> bool {
        self.sink.has_demand()
    }

    /// Whether the consumers asked to end this epoch.
    pub(super) fn wants_epoch_end(&self, epoch: u32) -> bool {
        self.sink.wants_epoch_end(epoch)
    }

    /// Tells the sink that the epoch is at its end. If it ends early, records that no consumer has
    /// got are left out.
    pub(super) fn end_epoch(&mut self, epoch: u32, early: bool) -> Result<(), StopReason> {
        if early {
            self.batch.restart();
        } else {
            self.cut_at(CutPoint::EpochEnd)?;
        }
        self.sink.end_epoch(epoch, early)
    }

    /// Bytes of input that fill the batch, counted from the end of the chunk: an estimate. `None`
    /// without a size, or before the object's first record.
    pub(super) fn bytes_to_cut(&self) -> Option<usize> {
        let density = self.density.likely();
        let size = self.size.filter(|_| density > 0.0)?;
        let missing = size.records.saturating_sub(self.batch.records);
        // A little more, because the quotient is rounded.
        let bytes = (missing as f64 / density * (1.0 + 1e-9)).ceil();
        Some((bytes as usize).saturating_sub(self.len))
    }

    /// Records of the last batches that were left out, because they did not fill a batch.
    pub(super) fn take_dropped(&self) -> u64 {
        self.counts().dropped.take(u64::MAX)
    }

    /// Byte offset of the chunk in the object.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Bytes of the chunk.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Records of the object so far.
    pub(super) fn records(&self) -> u64 {
        self.records
    }

    /// Batches granted so far, of all objects.
    pub(super) fn granted(&self) -> u64 {
        self.counts().granted.get()
    }

    /// Whether the batch holds records that no consumer has got yet.
    pub(super) fn has_records(&self) -> bool {
        self.batch.records > 0
    }

    /// The chunk: the bytes that were read and not consumed. For the time of a call of the decoder.
    pub(super) fn chunk(&self) -> (Bytes, Range<usize>) {
        let range = self.at..self.at + self.len;
        match &self.memory {
            Some(memory) if self.in_place => (memory.clone(), range),
            _ => (self.input.clone(), range),
        }
    }

    /// The bytes of the chunk from `offset` on, at most `max` of them.
    pub(super) fn peek(&self, offset: usize, max: usize) -> Vec<u8> {
        let (bytes, range) = self.chunk();
        let chunk = &(*bytes).as_ref()[range];
        let rest = chunk.get(offset..).unwrap_or(&[]);
        rest[..rest.len().min(max)].to_vec()
    }

    /// Free memory right after the chunk: at least one byte and at most `want`. The batch leaves if
    /// there is no room.
    pub(super) fn read_buffer(&mut self, want: usize) -> Result<&mut [u8], StopReason> {
        if self.in_place && self.prefers_copying {
            self.leave_batch_memory();
        } else if !self.in_place && !self.prefers_copying {
            self.enter_batch_memory()?;
        }
        let (from, to) =
            if self.in_place { self.room_in_place(want)? } else { self.room_while_copying(want) };
        let bytes = if self.in_place { self.memory_mut() } else { self.input_mut().as_mut_slice() };
        Ok(&mut bytes[from..to])
    }

    /// Adds to the chunk the first `count` bytes of the last [`read_buffer`](Self::read_buffer).
    pub(super) fn advance(&mut self, count: usize) {
        self.len += count;
    }

    /// Removes the first `count` bytes from the chunk.
    pub(super) fn consume(&mut self, count: usize) {
        self.at += count;
        self.len -= count;
        self.position += count as u64;
        self.density.measure(self.position, self.records);
    }

    /// Adds the records of a call of the decoder to the batch. If they don't fit, the batch leaves
    /// and a new one begins.
    pub(super) fn append(&mut self, decoded: &DecodedRecords) -> Result<(), StopReason> {
        if decoded.records == 0 {
            return Ok(());
        }
        self.prefers_copying = decoded.payload.len() as u64 > decoded.end;
        let mut from = self.counts.passed_over.take(decoded.records as u64) as usize;
        self.records += from as u64;
        let Some(size) = self.size else {
            if from < decoded.records {
                self.append_part(decoded, from..decoded.records)?;
            }
            self.records += (decoded.records - from) as u64;
            return Ok(());
        };
        while from < decoded.records {
            let fill = size.records - self.batch.records;
            let part = from..decoded.records.min(from + fill);
            self.append_part(decoded, part.clone())?;
            self.records += part.len() as u64;
            self.cut_at(CutPoint::Decoded)?;
            from = part.end;
        }
        Ok(())
    }

    /// Fills the empty batch with records that were picked, whose first one comes `after` records
    /// after `start`: each value is copied to the place that it keeps. The batch does not leave yet.
    pub(super) fn fill(
        &mut self,
        epoch: u32,
        start: &BatchStart,
        after: u64,
        records: &impl PickedRecords,
    ) -> Result<(), StopReason> {
        let (places, payload) = records.layout(&self.row_sizes);
        if self.grown == 0 {
            self.ensure_memory()?;
        }
        let room = self.room_from(start, records.len(), self.batch.columns.len());
        if room.is_none_or(|room| payload > room) {
            self.replace_by_dedicated(payload)?;
            self.grown = self.grown.max(payload).max(1);
        }
        self.batch.epoch = epoch;
        self.batch.start.clone_from(start);
        self.batch.start.pass(after);
        let mut batch = std::mem::take(&mut self.batch);
        records.copy_to(&mut batch, self.memory_mut(), &places);
        batch.payload = payload;
        self.batch = batch;
        Ok(())
    }

    /// Adds copies of these records of another batch, which lies in `memory`. A batch leaves whenever
    /// it is full. Only with a size.
    pub(super) fn append_copies(
        &mut self,
        memory: &[u8],
        other: &Batch,
        mut records: Range<usize>,
    ) -> Result<(), StopReason> {
        while let Some(size) = self.size.filter(|_| !records.is_empty()) {
            let missing = size.records - self.batch.records;
            let run = records.start..records.end.min(records.start + missing);
            records.start = run.end;
            self.append_run(&CopiedRun::new(other, memory, run))?;
            self.cut_at(CutPoint::Decoded)?;
        }
        Ok(())
    }

    fn append_run(&mut self, run: &CopiedRun<'_>) -> Result<(), StopReason> {
        if !self.has_records() {
            run.begin(&mut self.batch);
        }
        let payload = self.batch.payload + run.payload();
        self.make_room_for(payload, run.records())?;
        let mut batch = std::mem::take(&mut self.batch);
        run.append_to(&mut batch, self.memory_mut());
        self.batch = batch;
        Ok(())
    }

    /// Hands over a copy of a batch, whose payload is at the start of `memory`. Only without a size.
    pub(super) fn give_copy(&mut self, memory: &[u8], batch: &mut Batch) -> Result<(), StopReason> {
        let payload = batch.payload;
        self.ensure_memory()?;
        let room = self.room_from(&batch.start, batch.records, batch.columns.len());
        if room.is_none_or(|room| payload > room) {
            self.replace_by_dedicated(payload)?;
        }
        self.memory_mut()[..payload].copy_from_slice(&memory[..payload]);
        std::mem::swap(&mut self.batch, batch);
        let granted = self.grant();
        std::mem::swap(&mut self.batch, batch);
        granted
    }

    /// Hands over a batch whose payload is at the start of memory that the sink gave. Only without a
    /// size.
    pub(super) fn give(&mut self, memory: S::Memory, batch: &mut Batch) -> Result<(), StopReason> {
        if !batch.columns.is_empty() {
            let (fields, texts) = (batch.columns.len(), batch.start.facts());
            let room = self.sink.room(&memory, batch.records, fields, texts);
            if room.is_none_or(|room| batch.payload > room) {
                return self.give_copy(memory.as_ref(), batch);
            }
        }
        self.sink.grant(memory, batch)?;
        self.counts.granted.add(1);
        Ok(())
    }

    /// Bytes of the memory that a batch gets first.
    pub(super) fn memory_bytes(&mut self) -> Result<usize, StopReason> {
        self.ensure_memory()?;
        Ok(self.memory.as_ref().map_or(0, |memory| (**memory).as_ref().len()))
    }

    /// Exchanges the columns of the batch, which has no records, for the sake of their memory.
    pub(super) fn swap_columns(&mut self, columns: &mut Vec<Column>) {
        std::mem::swap(&mut self.batch.columns, columns);
        self.batch.restart();
    }

    /// Takes the memory of a batch that is not wanted, for another builder.
    pub(super) fn take_memory(&mut self) -> Option<S::Memory> {
        self.batch.restart();
        self.memory.take().and_then(|memory| Arc::try_unwrap(memory).ok())
    }

    /// The sink.
    pub(super) fn sink(&mut self) -> &mut S {
        self.sink
    }

    /// Adds a part of a call's records to the batch.
    fn append_part(
        &mut self,
        decoded: &DecodedRecords,
        part: Range<usize>,
    ) -> Result<(), StopReason> {
        self.begin_batch(self.records);
        if self.in_place && !self.append_in_place(decoded, part.clone()) {
            self.leave_batch_memory();
            self.cut_at(CutPoint::NoRoom)?;
            self.begin_batch(self.records);
        }
        if !self.in_place { self.append_copying(decoded, part) } else { Ok(()) }
    }

    /// Notes where the batch's first record comes from, if the batch has none yet.
    fn begin_batch(&mut self, first_record: u64) {
        if self.batch.records == 0 {
            self.began = Instant::now();
            let start = &mut self.batch.start;
            start.object.clone_from(&self.object.object);
            start.metadata.clone_from(&self.object.metadata);
            start.identity.clone_from(&self.object.identity);
            start.object_number = self.object.object_number;
            (start.first_record, start.object_offset) = (first_record, self.position);
            start.restart_header = self.object.restart_header;
            start.restart_offset = self.object.restart_offset;
            start.restart_records = first_record - self.object.first_record;
        }
    }

    /// Lets the batch leave if the rule says so at this point. The chunk moves on to other memory.
    pub(super) fn cut_at(&mut self, point: CutPoint) -> Result<(), StopReason> {
        let fill = Fill { records: self.batch.records, bytes: self.batch.payload };
        let is_awaited = || self.began.elapsed() >= WARM_TIME && self.sink.has_demand();
        if !is_cut(fill, point, self.size, is_awaited) {
            return Ok(());
        }
        match self.size {
            Some(size) if size.tail == Tail::Drop && fill.records < size.records => {
                self.counts.dropped.add(fill.records as u64);
                self.batch.restart();
                Ok(())
            }
            Some(size) => self.grant_of_size(size),
            None => self.grant(),
        }
    }

    /// Hands over a batch of a fixed size: filled up if it has to be, with the values of a fixed
    /// size as arrays.
    fn grant_of_size(&mut self, size: BatchSize) -> Result<(), StopReason> {
        if self.in_place {
            self.leave_batch_memory();
        }
        if size.tail == Tail::Pad {
            self.batch.pad(size.records);
        }
        let (fields, payload) = self.batch.scattered(&self.row_sizes);
        let room = self.room(self.batch.records, self.batch.columns.len());
        if room.is_none_or(|room| payload > room) {
            self.grow(payload)?;
        }
        let mut batch = std::mem::take(&mut self.batch);
        batch.gather(self.memory_mut(), &fields);
        self.batch = batch;
        self.grant()
    }

    /// Hands the batch over, and begins another one.
    fn grant(&mut self) -> Result<(), StopReason> {
        if self.in_place {
            self.leave_batch_memory();
        }
        // Only a call of the decoder holds a clone, and none is running.
        let memory = self.memory.take().and_then(|memory| Arc::try_unwrap(memory).ok());
        if std::mem::take(&mut self.dedicated) && self.size.is_some() {
            let used = self.batch.payload + 8 * self.batch.records * self.batch.columns.len();
            self.grown = self.grown.max(used + used / 8);
        }
        if let Some(memory) = memory {
            self.sink.grant(memory, &mut self.batch)?;
            self.counts.granted.add(1);
        }
        self.batch.restart();
        Ok(())
    }

    /// Moves the chunk to the private buffer.
    fn leave_batch_memory(&mut self) {
        let range = self.at..self.at + self.len;
        let memory = self.memory.take();
        let input = self.input_mut();
        input.clear();
        if let Some(memory) = &memory {
            input.extend_from_slice(&(**memory).as_ref()[range]);
        }
        self.memory = memory;
        self.at = 0;
        self.in_place = false;
    }

    /// Moves the chunk to the batch's memory, after its records.
    fn enter_batch_memory(&mut self) -> Result<(), StopReason> {
        let fields = self.batch.columns.len();
        loop {
            self.ensure_memory()?;
            let records = self.batch.records + self.density.records_in(self.len);
            let room = self.room(records, fields).unwrap_or(0);
            let to = self.batch.payload.next_multiple_of(ALIGN);
            if to + self.len <= room {
                let input = std::mem::take(&mut self.input);
                let range = self.at..self.at + self.len;
                self.memory_mut()[to..to + range.len()].copy_from_slice(&input[range]);
                self.input = input;
                self.at = to;
                self.in_place = true;
                return Ok(());
            }
            if self.has_records() {
                self.make_room(to + self.len + MIN_READ)?;
            } else {
                self.replace_by_dedicated(self.len + MIN_READ)?;
            }
        }
    }

    /// Takes memory from the sink if the batch has none.
    fn ensure_memory(&mut self) -> Result<(), StopReason> {
        if self.memory.is_none() && self.grown > 0 {
            self.replace_by_dedicated(self.grown)?;
        } else if self.memory.is_none() {
            self.memory = Some(Arc::new(self.sink.memory()?));
            self.dedicated = false;
        }
        Ok(())
    }

    /// Makes room for `payload` bytes: the batch leaves, or else its memory grows, because it has a
    /// fixed size.
    fn make_room(&mut self, payload: usize) -> Result<(), StopReason> {
        if self.size.is_some() { self.grow(payload) } else { self.cut_at(CutPoint::NoRoom) }
    }

    /// Gives the batch memory for at least `payload` bytes. The batch and the chunk stay.
    fn grow(&mut self, payload: usize) -> Result<(), StopReason> {
        // Each byte is copied at most once more in all, because the size doubles.
        let larger = |memory: &S::Memory| payload.max(2 * memory.as_ref().len());
        let memory = self.memory.take().and_then(|memory| Arc::try_unwrap(memory).ok());
        let memory = match memory {
            Some(mut memory) if self.dedicated => {
                let bytes = larger(&memory);
                self.sink.grow(&mut memory, bytes)?;
                memory
            }
            Some(slot) => {
                let fields = self.batch.columns.len().max(1);
                let mut memory = self.sink.dedicated_memory(larger(&slot), fields)?;
                let chunk_end = if self.in_place { self.at + self.len } else { 0 };
                let used = self.batch.payload.max(chunk_end);
                memory.as_mut()[..used].copy_from_slice(&slot.as_ref()[..used]);
                memory
            }
            None => return Ok(()),
        };
        (self.memory, self.dedicated) = (Some(Arc::new(memory)), true);
        Ok(())
    }

    /// Takes a dedicated buffer in place of the batch's memory. Only for a batch without records,
    /// while copying.
    fn replace_by_dedicated(&mut self, payload: usize) -> Result<(), StopReason> {
        let fields = self.batch.columns.len().max(1);
        self.memory = None;
        self.memory = Some(Arc::new(self.sink.dedicated_memory(payload, fields)?));
        self.dedicated = true;
        Ok(())
    }

    /// Bytes that the payload may take of the batch's memory if it has `records` records of `fields`
    /// fields. `None` if there is no memory, or if not even their index fits.
    fn room(&self, records: usize, fields: usize) -> Option<usize> {
        let start = if self.has_records() { &self.batch.start } else { &self.object };
        self.room_from(start, records, fields)
    }

    /// The same of a batch that begins there.
    fn room_from(&self, start: &BatchStart, records: usize, fields: usize) -> Option<usize> {
        let memory = self.memory.as_ref()?;
        self.sink.room(memory, records, fields, start.facts())
    }

    /// The range of the batch's memory into which the next bytes can be read.
    fn room_in_place(&mut self, want: usize) -> Result<(usize, usize), StopReason> {
        loop {
            self.ensure_memory()?;
            if self.batch.payload > self.at {
                // Payload lies after the chunk: the next byte can't be written there.
                self.leave_batch_memory();
                self.enter_batch_memory()?;
            }
            let fields = self.batch.columns.len();
            let records = self.batch.records + self.density.records_in(self.len);
            let room = self.room(records, fields).unwrap_or(0);
            let end = self.at + self.len;
            let free = room.saturating_sub(end);
            // Each byte that is read takes its own room and that of its records' index.
            let index = 8.0 * fields as f64 * self.density.cautious();
            let readable = ((free as f64 / (1.0 + index)) as usize).min(want);
            let is_empty = !self.has_records();
            let goes_on = is_empty || !self.dedicated || self.size.is_some();
            if goes_on && readable >= want.min(MIN_READ) {
                return Ok((end, end + readable));
            }
            if is_empty && self.at == 0 && free > 0 {
                return Ok((end, end + free.min(MIN_READ)));
            }
            if !is_empty && self.size.is_some() {
                let index = 8 * fields * records;
                self.grow(end + want + index)?;
            } else if !is_empty {
                self.cut_at(CutPoint::NoRoom)?;
                self.enter_batch_memory()?;
            } else if self.at > 0 {
                let (at, len) = (self.at, self.len);
                self.memory_mut().copy_within(at..at + len, 0);
                self.at = 0;
                self.batch.payload = 0;
            } else {
                self.leave_batch_memory();
                let larger = (self.len + want).max(self.len * 2);
                self.replace_by_dedicated(larger)?;
                self.enter_batch_memory()?;
            }
        }
    }

    /// The range of the private buffer into which the next bytes can be read.
    fn room_while_copying(&mut self, want: usize) -> (usize, usize) {
        let (at, len) = (self.at, self.len);
        let input = self.input_mut();
        if at > 0 {
            input.copy_within(at..at + len, 0);
        }
        if input.len() < len + want {
            input.resize(len + want, 0);
        }
        self.at = 0;
        (len, len + want)
    }

    /// Adds a part of the records of a call whose chunk lies in the batch's memory. False if they
    /// don't fit.
    fn append_in_place(&mut self, decoded: &DecodedRecords, part: Range<usize>) -> bool {
        let (records, fields) = (self.batch.records + part.len(), self.batch.columns.len());
        if self.dedicated && self.size.is_none() && 8 * records * fields > MAX_DEDICATED_INDEX {
            return false;
        }
        let Some(room) = self.room(records, fields) else { return false };
        let chunk_end = self.at + self.len;
        let payload_at = if self.batch.payload > chunk_end {
            self.batch.payload
        } else {
            chunk_end.next_multiple_of(ALIGN)
        };
        let payload_end = payload_at + decoded.payload.len();
        let end = if decoded.payload.is_empty() { chunk_end } else { payload_end };
        if end.max(self.batch.payload) > room {
            return false;
        }
        if decoded.payload.is_empty() {
            self.batch.payload = self.batch.payload.max(self.at + decoded.end as usize);
            self.batch.add_in_place(decoded, part, self.at, 0, self.position);
        } else {
            self.memory_mut()[payload_at..payload_end].copy_from_slice(&decoded.payload);
            self.batch.payload = payload_end;
            self.batch.add_in_place(decoded, part, self.at, payload_at, self.position);
        }
        true
    }

    /// Adds a part of the records of a call whose chunk lies in the private buffer.
    fn append_copying(
        &mut self,
        decoded: &DecodedRecords,
        part: Range<usize>,
    ) -> Result<(), StopReason> {
        let is_of_one_source = !decoded.has_payload || decoded.all_in_payload;
        if is_of_one_source && self.append_together(decoded, &part)? {
            return Ok(());
        }
        for record in part.clone() {
            let bytes: usize = decoded.columns.iter().map(|c| c.lengths[record] as usize).sum();
            self.ensure_room(bytes)?;
            self.begin_batch(self.records + (record - part.start) as u64);
            let input = std::mem::take(&mut self.input);
            let chunk = &input[self.at..self.at + self.len];
            let (mut batch, from) = (std::mem::take(&mut self.batch), self.position);
            batch.add_copied(self.memory_mut(), decoded, record, chunk, from);
            self.batch = batch;
            self.input = input;
        }
        Ok(())
    }

    /// Adds a part of the records of a call, whose values all lie in the chunk or all in the call's payload,
    /// by copying all bytes from the first value to the last one. False if these are far more than those of
    /// the values, or if they don't fit.
    fn append_together(
        &mut self,
        decoded: &DecodedRecords,
        part: &Range<usize>,
    ) -> Result<bool, StopReason> {
        let place = ValueSpan::of(&decoded.columns, part);
        let (from, to) = (self.batch.payload, self.batch.payload + place.span.len());
        if !place.is_together() || !self.make_room_for(to, part.len())? {
            return Ok(false);
        }
        let start = place.span.start & !(IN_PAYLOAD as usize);
        let bytes = start..start + place.span.len();
        let input = std::mem::take(&mut self.input);
        let source = match decoded.has_payload {
            true => &decoded.payload[bytes],
            false => &input[self.at..self.at + self.len][bytes],
        };
        self.memory_mut()[from..to].copy_from_slice(source);
        self.input = input;
        let source_at = from.wrapping_sub(start);
        self.batch.add_in_place(decoded, part.clone(), source_at, source_at, self.position);
        self.batch.payload = to;
        Ok(true)
    }

    /// Makes room for this many more records, with which the payload has `payload` bytes: a batch of a
    /// fixed size grows. False if one without a size has no room, or should not have more records.
    fn make_room_for(&mut self, payload: usize, records: usize) -> Result<bool, StopReason> {
        self.ensure_memory()?;
        let fields = self.batch.columns.len();
        let records = self.batch.records + records;
        if self.size.is_none() && self.dedicated {
            // It would grow for the index of however many records.
            return Ok(false);
        }
        let room = self.room_from(&self.batch.start, records, fields);
        if room.is_some_and(|room| payload <= room) {
            return Ok(true);
        }
        if self.size.is_some() {
            self.grow(payload + 8 * records * fields)?;
        }
        Ok(self.size.is_some())
    }

    /// Makes room for one more record of `bytes` bytes.
    fn ensure_room(&mut self, bytes: usize) -> Result<(), StopReason> {
        let fields = self.batch.columns.len();
        loop {
            self.ensure_memory()?;
            let end = self.batch.payload + bytes;
            let fits = self.room(self.batch.records + 1, fields).is_some_and(|room| end <= room);
            let is_full = self.dedicated && self.has_records() && self.size.is_none();
            if fits && !is_full {
                return Ok(());
            }
            if self.has_records() {
                self.make_room(end)?;
            } else {
                self.batch.payload = 0;
                self.replace_by_dedicated(bytes)?;
            }
        }
    }

    fn memory_mut(&mut self) -> &mut [u8] {
        let memory = self.memory.as_mut().and_then(Arc::get_mut);
        // Every caller has ensured the memory, and clones live only as long as a call of the
        // decoder.
        memory.expect("the batch's memory is there and not shared").as_mut()
    }

    fn input_mut(&mut self) -> &mut Vec<u8> {
        // As above.
        Arc::get_mut(&mut self.input).expect("the input buffer is not shared")
    }
}
