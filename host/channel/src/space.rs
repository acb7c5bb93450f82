//! Where the bytes of an object lie while they are ground, and where its records come to lie.
//!
//! Bytes are read straight behind the chunk, into the memory of the batch that will be granted
//! (**in place**): records that the decoder only points at are never copied. Where a decoder makes
//! the bytes of its records, the input goes to a private **scratch** instead, and only what it made
//! goes into the batch. Which of the two is decided by what the decoder did last.

use std::ops::Range;
use std::sync::Arc;

use super::{Batch, Halt, Sink};
use pipemill_decode::Emitted;

/// Granularity of payloads: a cache line, and what Arrow likes best.
const ALIGN: usize = 64;
/// Reading less than this at a time is not worth a call; the batch is granted instead.
const WORTH_READING: usize = 4 << 10;

type Bytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// The chunk and the batch of a channel.
pub(super) struct Space<M> {
    /// The batch's memory. Cloned only for the length of a call of the decoder.
    memory: Option<Arc<M>>,
    /// The memory is larger than others and is granted as soon as it holds a record.
    large: bool,
    scratch: Arc<Vec<u8>>,
    in_place: bool,
    wants_scratch: bool,
    at: usize,
    len: usize,
    batch: Batch,
    /// Where the chunk starts in the object.
    position: u64,
    /// Records of the object so far.
    records: u64,
    /// How many records a byte of input makes, as seen so far in this object.
    density: f64,
    granted: u64,
}

impl<M: AsRef<[u8]> + AsMut<[u8]> + Send + Sync + 'static> Space<M> {
    pub(super) fn new() -> Self {
        Self {
            memory: None,
            large: false,
            scratch: Arc::default(),
            in_place: true,
            wants_scratch: false,
            at: 0,
            len: 0,
            batch: Batch::default(),
            position: 0,
            records: 0,
            density: 0.0,
            granted: 0,
        }
    }

    /// Begins an object.
    pub(super) fn begin(&mut self, epoch: u32, object: &str) {
        (self.at, self.len, self.position, self.records) = (0, 0, 0, 0);
        object.clone_into(&mut self.batch.object);
        self.batch.epoch = epoch;
        self.batch.restart(0, 0);
    }

    /// How many fields the records have.
    pub(super) fn set_fields(&mut self, fields: usize) {
        self.batch.columns.resize_with(fields, Default::default);
    }

    /// Where the chunk starts in the object.
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
        self.granted
    }
    /// Records that wait to be granted.
    pub(super) fn waiting(&self) -> usize {
        self.batch.records
    }

    /// Bytes of payload that wait to be granted.
    pub(super) fn filled(&self) -> usize {
        if self.batch.records == 0 { 0 } else { self.batch.payload }
    }

    /// The chunk: bytes that were read and not consumed.
    pub(super) fn chunk(&self) -> (Bytes, Range<usize>) {
        let range = self.at..self.at + self.len;
        match &self.memory {
            Some(memory) if self.in_place => (memory.clone(), range),
            _ => (self.scratch.clone(), range),
        }
    }

    /// The first bytes of the chunk from `offset` on, at most so many.
    pub(super) fn peek(&self, offset: usize, most: usize) -> Vec<u8> {
        let (bytes, range) = self.chunk();
        let chunk = &(*bytes).as_ref()[range];
        let rest = chunk.get(offset..).unwrap_or(&[]);
        rest[..rest.len().min(most)].to_vec()
    }

    /// Free memory behind the chunk, at least a byte and at most `want`. Grants the batch if it has to.
    pub(super) fn writable<S>(&mut self, sink: &mut S, want: usize) -> Result<&mut [u8], Halt>
    where
        S: Sink<Memory = M>,
    {
        if self.in_place && self.wants_scratch {
            self.leave_memory();
        } else if !self.in_place && !self.wants_scratch {
            self.enter_memory(sink)?;
        }
        let (from, to) = if self.in_place {
            self.room_in_place(sink, want)?
        } else {
            self.room_in_scratch(want)
        };
        let bytes =
            if self.in_place { self.memory_mut() } else { self.scratch_mut().as_mut_slice() };
        Ok(&mut bytes[from..to])
    }

    /// So many bytes were written to what [`writable`](Self::writable) gave.
    pub(super) fn came(&mut self, count: usize) {
        self.len += count;
    }

    /// The first bytes of the chunk are done with.
    pub(super) fn consume(&mut self, count: usize) {
        self.at += count;
        self.len -= count;
        self.position += count as u64;
        self.density = self.records as f64 / self.position.max(1) as f64;
    }

    /// Takes the records that a call emitted.
    pub(super) fn take<S>(&mut self, sink: &mut S, emitted: &Emitted) -> Result<(), Halt>
    where
        S: Sink<Memory = M>,
    {
        if emitted.records == 0 {
            return Ok(());
        }
        self.wants_scratch = emitted.payload.len() as u64 > emitted.reached;
        if self.in_place && !self.take_in_place(sink, emitted) {
            // Too much for what is left of this memory: from here on by copying.
            self.leave_memory();
            self.grant(sink)?;
        }
        if !self.in_place {
            self.take_by_copying(sink, emitted)?;
        }
        self.records += emitted.records as u64;
        Ok(())
    }

    /// Grants what waits, if anything does. The chunk moves on to other memory.
    pub(super) fn grant<S>(&mut self, sink: &mut S) -> Result<(), Halt>
    where
        S: Sink<Memory = M>,
    {
        if self.batch.records == 0 {
            return Ok(());
        }
        if self.in_place {
            self.leave_memory();
        }
        // Only a call of the decoder holds a clone, and none is running.
        let memory = self.memory.take().and_then(|memory| Arc::try_unwrap(memory).ok());
        self.large = false;
        if let Some(memory) = memory {
            sink.grant(memory, &self.batch)?;
            self.granted += 1;
        }
        self.restart_batch(0);
        Ok(())
    }

    /// The batch starts anew. `taken`: records of the running call that were granted already.
    fn restart_batch(&mut self, taken: u64) {
        self.batch.restart(self.records + taken, self.position);
    }

    /// The chunk goes on in the scratch.
    fn leave_memory(&mut self) {
        let range = self.at..self.at + self.len;
        let memory = self.memory.take();
        let scratch = self.scratch_mut();
        scratch.clear();
        if let Some(memory) = &memory {
            scratch.extend_from_slice(&(**memory).as_ref()[range]);
        }
        self.memory = memory;
        self.at = 0;
        self.in_place = false;
    }

    /// The chunk goes on in the batch's memory, behind its records.
    fn enter_memory<S: Sink<Memory = M>>(&mut self, sink: &mut S) -> Result<(), Halt> {
        let fields = self.batch.columns.len();
        loop {
            self.ensure_memory(sink)?;
            let memory = self.memory.as_ref().map_or(0, |memory| {
                sink.room(memory, self.batch.records + self.expected(self.len), fields)
            });
            let to = self.batch.payload.next_multiple_of(ALIGN);
            if to + self.len <= memory {
                let tail = std::mem::take(&mut self.scratch);
                let range = self.at..self.at + self.len;
                self.memory_mut()[to..to + range.len()].copy_from_slice(&tail[range]);
                self.scratch = tail;
                self.at = to;
                self.in_place = true;
                return Ok(());
            }
            if self.batch.records > 0 {
                self.grant(sink)?;
            } else {
                self.replace_by_large(sink, self.len + WORTH_READING)?;
            }
        }
    }

    fn ensure_memory<S: Sink<Memory = M>>(&mut self, sink: &mut S) -> Result<(), Halt> {
        if self.memory.is_none() {
            self.memory = Some(Arc::new(sink.memory()?));
            self.large = false;
        }
        Ok(())
    }

    /// Only for a batch without records, and a chunk that is in the scratch.
    fn replace_by_large<S: Sink<Memory = M>>(
        &mut self,
        sink: &mut S,
        payload: usize,
    ) -> Result<(), Halt> {
        let fields = self.batch.columns.len().max(1);
        self.memory = None;
        self.memory = Some(Arc::new(sink.large_memory(payload, fields)?));
        self.large = true;
        Ok(())
    }

    /// Records to expect from so many bytes.
    fn expected(&self, bytes: usize) -> usize {
        (bytes as f64 * self.density * 1.1) as usize + 16
    }

    fn room_in_place<S>(&mut self, sink: &mut S, want: usize) -> Result<(usize, usize), Halt>
    where
        S: Sink<Memory = M>,
    {
        loop {
            self.ensure_memory(sink)?;
            if self.batch.payload > self.at {
                // Made bytes lie behind the chunk: the next byte can't be written there.
                self.leave_memory();
                self.enter_memory(sink)?;
            }
            let fields = self.batch.columns.len();
            let records = self.batch.records + self.expected(self.len);
            let room = self.memory.as_ref().map_or(0, |memory| sink.room(memory, records, fields));
            let end = self.at + self.len;
            let free = room.saturating_sub(end);
            // What is read takes its own room and that of its index.
            let index = 8.0 * fields as f64 * self.density * 1.1;
            let worth = ((free as f64 / (1.0 + index)) as usize).min(want);
            let granting = self.large && self.batch.records > 0;
            let fresh = self.batch.records == 0;
            if !granting && worth >= want.min(WORTH_READING) {
                return Ok((end, end + worth));
            }
            if fresh && self.at == 0 && free > 0 {
                return Ok((end, end + free.min(WORTH_READING)));
            }
            if !fresh {
                self.grant(sink)?;
                self.enter_memory(sink)?;
            } else if self.at > 0 {
                let (at, len) = (self.at, self.len);
                self.memory_mut().copy_within(at..at + len, 0);
                self.at = 0;
                self.batch.payload = 0;
            } else {
                self.leave_memory();
                let larger = (self.len + want).max(self.len * 2);
                self.replace_by_large(sink, larger)?;
                self.enter_memory(sink)?;
            }
        }
    }

    fn room_in_scratch(&mut self, want: usize) -> (usize, usize) {
        let (at, len) = (self.at, self.len);
        let scratch = self.scratch_mut();
        if at > 0 {
            scratch.copy_within(at..at + len, 0);
        }
        if scratch.len() < len + want {
            scratch.resize(len + want, 0);
        }
        self.at = 0;
        (len, len + want)
    }

    /// False if it does not fit.
    fn take_in_place<S: Sink<Memory = M>>(&mut self, sink: &S, emitted: &Emitted) -> bool {
        let Some(memory) = &self.memory else { return false };
        let records = self.batch.records + emitted.records;
        let room = sink.room(memory, records, self.batch.columns.len());
        let chunk_end = self.at + self.len;
        let made_at = if self.batch.payload > chunk_end {
            self.batch.payload
        } else {
            chunk_end.next_multiple_of(ALIGN)
        };
        let made_end = made_at + emitted.payload.len();
        let end = if emitted.payload.is_empty() { chunk_end } else { made_end };
        if end.max(self.batch.payload) > room {
            return false;
        }
        if emitted.payload.is_empty() {
            self.batch.payload = self.batch.payload.max(self.at + emitted.reached as usize);
            self.batch.add_in_place(emitted, self.at, 0, self.position);
        } else {
            self.memory_mut()[made_at..made_end].copy_from_slice(&emitted.payload);
            self.batch.payload = made_end;
            self.batch.add_in_place(emitted, self.at, made_at, self.position);
        }
        true
    }

    fn take_by_copying<S>(&mut self, sink: &mut S, emitted: &Emitted) -> Result<(), Halt>
    where
        S: Sink<Memory = M>,
    {
        self.ensure_memory(sink)?;
        let fields = self.batch.columns.len();
        let end = self.batch.payload + emitted.payload.len();
        let room = self
            .memory
            .as_ref()
            .map_or(0, |memory| sink.room(memory, self.batch.records + emitted.records, fields));
        if emitted.all_made && end <= room {
            let at = self.batch.payload;
            self.memory_mut()[at..end].copy_from_slice(&emitted.payload);
            self.batch.add_in_place(emitted, 0, at, self.position);
            self.batch.payload = end;
            return Ok(());
        }
        for record in 0..emitted.records {
            let bytes: usize = emitted.columns.iter().map(|c| c.lengths[record] as usize).sum();
            self.ensure_room(sink, record, bytes)?;
            let scratch = std::mem::take(&mut self.scratch);
            let chunk = &scratch[self.at..self.at + self.len];
            let (mut batch, from) = (std::mem::take(&mut self.batch), self.position);
            batch.add_copied(self.memory_mut(), emitted, record, chunk, from);
            self.batch = batch;
            self.scratch = scratch;
        }
        Ok(())
    }

    /// Room for one more record of so many bytes; `record` of the running call.
    fn ensure_room<S>(&mut self, sink: &mut S, record: usize, bytes: usize) -> Result<(), Halt>
    where
        S: Sink<Memory = M>,
    {
        let fields = self.batch.columns.len();
        loop {
            self.ensure_memory(sink)?;
            let room = self
                .memory
                .as_ref()
                .map_or(0, |memory| sink.room(memory, self.batch.records + 1, fields));
            let full_large = self.large && self.batch.records > 0;
            if self.batch.payload + bytes <= room && !full_large {
                return Ok(());
            }
            if self.batch.records > 0 {
                self.grant(sink)?;
                self.restart_batch(record as u64);
            } else {
                self.batch.payload = 0;
                self.replace_by_large(sink, bytes)?;
            }
        }
    }

    fn memory_mut(&mut self) -> &mut [u8] {
        let memory = self.memory.as_mut().and_then(Arc::get_mut);
        // Every caller has made sure that there is memory, and clones live only inside `decode`.
        memory.expect("the batch's memory is there and not shared").as_mut()
    }

    fn scratch_mut(&mut self) -> &mut Vec<u8> {
        // As above.
        Arc::get_mut(&mut self.scratch).expect("the scratch is not shared")
    }
}
