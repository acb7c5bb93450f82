//! The memory of one batch while it is filled: a slot, or a dedicated buffer if a record needs
//! more. The payload comes first; the object's name and the index are written after it when the
//! batch is granted.

use std::sync::Arc;
use std::sync::atomic::Ordering;

pub use pipemill_types::Column;
use pipemill_types::{BatchMemory, BatchPosition, ChunkMemory, SharedPart};

use super::config::{RingError, WriteError};
use super::index::Index;
use super::ring::Ring;
use super::slot_memory::SlotMemory;
use super::table::{Batch, RecordPlace, SlotId, Wanted};
use crate::layout::{ABSENT, HEADER_BYTES, Header, LISTED, Place};
use crate::memory::DedicatedBuffer;
use crate::protocol::Resumed;

/// Largest size of a batch in bytes. An offset is a u32, and the largest one means "absent".
pub(super) const MAX_PAYLOAD: usize = ABSENT as usize;

/// The description of a batch in its header.
#[derive(Clone, Debug, Default)]
pub struct BatchInfo<'a> {
    /// The position of the batch's first record. The batch number in it is ignored: the ring counts
    /// batches.
    pub position: BatchPosition,
    /// A byte offset in the object (inflated) at or before the first record.
    pub object_offset: u64,
    /// Facts about the object: a JSON object of strings, or the empty string.
    pub metadata: &'a str,
    /// Number of records at the end that are copies of the last real one.
    pub padding: u32,
    /// Length of the payload in bytes, from the start of the payload area.
    pub payload_bytes: usize,
    /// Whether at least one field of one record is absent.
    pub has_absent: bool,
}

impl BatchInfo<'_> {
    /// The position of a batch, with the number of its real records.
    fn place(&self, batch: u64, records: usize) -> Resumed {
        let position = BatchPosition { batch, ..self.position.clone() };
        let delivered = (records as u64).saturating_sub(self.padding.into());
        Resumed { delivered, position, ..Resumed::default() }
    }

    /// Size in bytes of the object's name, its metadata and its identity.
    pub(super) fn text_bytes(&self) -> usize {
        let BatchPosition { object, .. } = &self.position;
        object.len() + self.metadata.len() + self.position.identity_text().len()
    }
}

/// A batch's memory that is being filled. If it is dropped without [`grant`](Writer::grant), the
/// memory is free again and nobody sees the batch.
#[derive(Debug)]
pub struct Writer {
    ring: Arc<Ring>,
    /// `None` once it is granted.
    slot: Option<SlotId>,
    memory: Memory,
    /// The index, if it was written already.
    index: Option<Index>,
    /// Whether it counts in the ring's `extra_filled`.
    is_extra: bool,
}

enum Memory {
    Slot(SlotId),
    /// The larger slot with this number among them.
    Larger(Arc<SlotMemory>, u32),
    Dedicated(DedicatedBuffer),
    /// This is a dedicated buffer that does not exist yet, or that was granted.
    None,
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Memory::Slot(slot) => write!(f, "Slot({slot})"),
            Memory::Larger(_, at) => write!(f, "Larger({at})"),
            Memory::Dedicated(_) => f.write_str("Dedicated"),
            Memory::None => f.write_str("None"),
        }
    }
}

impl Ring {
    /// Waits for a free slot.
    ///
    /// # Errors
    /// [`Interrupt::Stop`](super::Interrupt::Stop) after [`stop`](Ring::stop).
    /// [`Interrupt::EndEpoch`](super::Interrupt::EndEpoch) if consumers have requested to skip the
    /// rest of the epoch; this also ends a wait at once, because these consumers may hold every
    /// slot while they wait for the epoch's end. [`WriteError::Failed`] if the slot is filled for
    /// the first time, and the kernel does not grant its memory.
    pub fn acquire(self: &Arc<Ring>) -> Result<Writer, WriteError> {
        if self.has_fewer_slots() {
            return self.acquire_fitted();
        }
        let slot = self.take(Wanted::Slot)?;
        Ok(self.slot_writer(slot, false)?)
    }

    /// As [`acquire`](Ring::acquire), without waiting. `None` where no slot is free, or where
    /// [`acquire`](Ring::acquire) would fail.
    pub fn try_acquire(self: &Arc<Ring>) -> Option<Writer> {
        let slot = self.try_take(Wanted::Slot)?;
        self.slot_writer(slot, false).ok()
    }

    /// A free extra slot, for a batch that comes after those that are being filled. `None` where
    /// none is free, where the writer should begin elsewhere or end, and where all slots that there
    /// are for this are being filled: see [`within`](Ring::within). Extra slots never reduce those
    /// of the next batch or of consumers.
    pub fn acquire_extra(self: &Arc<Ring>) -> Option<Writer> {
        let slot = self.take_extra()?;
        self.slot_writer(slot, true).ok()
    }

    fn slot_writer(self: &Arc<Ring>, slot: SlotId, is_extra: bool) -> Result<Writer, RingError> {
        // If there is no memory, dropping this frees the slot.
        let writer = self.writer(slot, Memory::Slot(slot), is_extra);
        self.memory.reserve(slot)?;
        Ok(writer)
    }

    fn writer(self: &Arc<Ring>, slot: SlotId, memory: Memory, is_extra: bool) -> Writer {
        Writer { ring: self.clone(), slot: Some(slot), memory, index: None, is_extra }
    }

    /// A dedicated buffer, for a batch that does not fit a slot. Its payload area has at least
    /// `payload_bytes` bytes, and can grow. A free dedicated buffer is reused, if it is large
    /// enough. At most [`RingConfig::dedicated`](super::RingConfig) of them exist at once,
    /// including those that consumers hold, so this waits as [`acquire`](Ring::acquire) does.
    ///
    /// # Errors
    /// As for [`acquire`](Ring::acquire), and [`WriteError::Failed`] if the kernel does not grant
    /// the memory or `payload_bytes` is not below 4 GiB.
    pub fn acquire_dedicated(self: &Arc<Ring>, payload_bytes: usize) -> Result<Writer, WriteError> {
        let slot = self.take(Wanted::Dedicated)?;
        // If the buffer can't be made, dropping this frees the slot.
        let mut writer = self.writer(slot, Memory::None, false);
        writer.make_buffer(payload_bytes)?;
        Ok(writer)
    }

    /// As [`acquire_dedicated`](Ring::acquire_dedicated), without waiting, for a batch that comes
    /// after those that are being filled: at least half of the budget for batches stays free, for
    /// these to grow. `None` where there is no such buffer now, or where
    /// [`acquire_dedicated`](Ring::acquire_dedicated) would fail.
    pub fn try_acquire_dedicated(self: &Arc<Ring>, payload_bytes: usize) -> Option<Writer> {
        check_size(payload_bytes).ok()?;
        let bytes = HEADER_BYTES + payload_bytes;
        let (slot, spare) = self.try_take_dedicated(bytes)?;
        // If the buffer can't be made, dropping this frees the slot.
        let mut writer = self.writer(slot, Memory::None, false);
        let create = || DedicatedBuffer::create(&dedicated_name(self), bytes, &self.budget).ok();
        writer.memory = Memory::Dedicated(spare.or_else(create)?);
        Some(writer)
    }
}

impl Writer {
    /// The writer of a slot or of a dedicated buffer, whose payload area has this many bytes. A
    /// dedicated buffer is made if none is free, without waiting for memory.
    pub(super) fn of_size(
        ring: &Arc<Ring>,
        slot: SlotId,
        payload_bytes: usize,
    ) -> Result<Writer, WriteError> {
        if !ring.is_dedicated(slot) {
            return Ok(ring.slot_writer(slot, false)?);
        }
        // If the buffer can't be made, dropping this frees the slot.
        let mut writer = ring.writer(slot, Memory::None, false);
        let bytes = HEADER_BYTES + payload_bytes;
        let buffer = match ring.take_spare(bytes) {
            Some(spare) => spare,
            None => DedicatedBuffer::create(&dedicated_name(ring), bytes, &ring.budget)
                .map_err(RingError::from)?,
        };
        writer.memory = Memory::Dedicated(buffer);
        Ok(writer)
    }

    /// The writer of one of these larger slots, or of a dedicated buffer of their size.
    pub(super) fn in_larger(
        ring: &Arc<Ring>,
        slot: SlotId,
        slots: &Arc<SlotMemory>,
    ) -> Result<Writer, WriteError> {
        let Some(at) = ring.larger_at(slot) else {
            return Writer::of_size(ring, slot, slots.slot_bytes() - HEADER_BYTES);
        };
        // If there is no memory, dropping this frees the slot.
        let writer = ring.writer(slot, Memory::Larger(slots.clone(), at), false);
        slots.reserve(at)?;
        Ok(writer)
    }

    fn make_buffer(&mut self, payload_bytes: usize) -> Result<(), WriteError> {
        check_size(payload_bytes)?;
        let bytes = HEADER_BYTES + payload_bytes;
        let buffer = match self.ring.take_spare(bytes) {
            Some(spare) => spare,
            None => {
                let name = dedicated_name(&self.ring);
                self.ring.allocate(|budget| DedicatedBuffer::create(&name, bytes, budget))?
            }
        };
        self.memory = Memory::Dedicated(buffer);
        Ok(())
    }

    /// Whether this is a dedicated buffer, which can grow.
    pub fn is_dedicated(&self) -> bool {
        matches!(self.memory, Memory::Dedicated(_))
    }

    /// Whether the payload area can grow: that of a dedicated buffer, and that of a larger slot,
    /// whose batch moves to a dedicated buffer if it does not fit.
    pub fn can_grow(&self) -> bool {
        matches!(self.memory, Memory::Dedicated(_) | Memory::Larger(..))
    }

    /// The payload area: all of the batch's memory after the header. The object's name and metadata
    /// and the index must also fit in here, see [`index_room`](crate::layout::index_room). It
    /// starts at a multiple of 64. It contains the bytes of older batches, not zeros.
    pub fn payload(&mut self) -> &mut [u8] {
        self.index = None;
        self.bytes().get_mut(HEADER_BYTES..).unwrap_or_default()
    }

    /// Makes the payload area at least `bytes` bytes long. The bytes that were written stay. A
    /// batch that does not fit its larger slot moves to a dedicated buffer.
    ///
    /// # Errors
    /// [`RingError::TooLarge`] if a slot has less, because a slot can't grow; [`RingError::Memory`]
    /// if the kernel does not grant the memory.
    pub fn ensure(&mut self, bytes: usize) -> Result<(), WriteError> {
        match &mut self.memory {
            Memory::Dedicated(memory) => {
                check_size(bytes)?;
                ensure(&self.ring, memory, HEADER_BYTES + bytes)
            }
            Memory::Larger(slots, _) if HEADER_BYTES.saturating_add(bytes) > slots.slot_bytes() => {
                let used = slots.slot_bytes() - HEADER_BYTES;
                self.move_to_dedicated(bytes, used)
            }
            _ => Ok(self.fits(HEADER_BYTES.saturating_add(bytes))?),
        }
    }

    /// Moves the first `used` bytes of the payload to a dedicated buffer for `bytes` bytes.
    fn move_to_dedicated(&mut self, bytes: usize, used: usize) -> Result<(), WriteError> {
        let mut larger = self.ring.acquire_dedicated(bytes)?;
        larger.payload()[..used].copy_from_slice(&self.as_ref()[..used]);
        // Dropping the old one frees its slot.
        *self = larger;
        Ok(())
    }

    /// Writes name, index and header, queues the batch, and grants it at once to a consumer that
    /// has credit. Returns the batch's number in the channel, from 0. A dedicated buffer grows if
    /// name and index need it.
    ///
    /// There must be one column for each field of the schema, all of the same length; or none, if
    /// the index was [written](BatchMemory::write_index) before.
    ///
    /// # Errors
    /// The memory is free again after each of these: [`RingError::NoSchema`] before
    /// [`Ring::set_schema`], [`RingError::Columns`] if the columns do not fit the schema or each
    /// other, [`RingError::TooLarge`] if the batch does not fit, [`RingError::Memory`] if the
    /// kernel does not grant the memory.
    pub fn grant(mut self, info: &BatchInfo<'_>, columns: &[Column]) -> Result<u64, WriteError> {
        let index = self.index_of(info, columns)?;
        let Some(slot) = self.slot else {
            let (bytes, limit) = (index.end, MAX_PAYLOAD);
            return Err(RingError::TooLarge { bytes, limit }.into());
        };
        let number = self.ring.next_batch();
        let (epoch, records) = (info.position.epoch, index.records as u32);
        let bytes = index.end as u64;
        let first =
            RecordPlace { object: info.position.object_number, record: info.position.first_record };
        let batch = Batch { number, epoch, records, bytes, first };
        write_header(self.bytes(), info, &index, batch.number);
        let dedicated = match std::mem::replace(&mut self.memory, Memory::None) {
            Memory::Dedicated(mut memory) => {
                memory.seal(index.end).map_err(RingError::from)?;
                Some(memory)
            }
            Memory::Slot(_) | Memory::Larger(..) | Memory::None => None,
        };
        self.slot = None;
        let place = info.place(number, index.records);
        self.ring.push(slot, batch, dedicated, place);
        Ok(number)
    }

    /// The index of the batch: the one that was written before, or these columns, which are written
    /// now.
    fn index_of(&mut self, info: &BatchInfo<'_>, columns: &[Column]) -> Result<Index, WriteError> {
        let fields = self.ring.fields().map(<[_]>::len).ok_or(RingError::NoSchema)?;
        let names = info.text_bytes();
        let fits = |index: &Index| {
            columns.is_empty() && index.fields == fields && index.is_of(info.payload_bytes, names)
        };
        if let Some(index) = self.index.take().filter(fits) {
            return Ok(index);
        }
        self.write_columns(fields, info.payload_bytes, names, columns)
    }

    /// Writes the index of a batch with this payload and these names, in bytes. A dedicated buffer
    /// grows if the index needs it.
    fn write_columns(
        &mut self,
        fields: usize,
        payload_bytes: usize,
        names: usize,
        columns: &[Column],
    ) -> Result<Index, WriteError> {
        check_columns(fields, columns)?;
        check_size(payload_bytes)?;
        debug_assert!(
            columns.iter().all(|column| place_of(column).fits(payload_bytes as u64)),
            "a span outside the payload"
        );
        let mut index = Index::of(payload_bytes, names, columns)?;
        match &mut self.memory {
            Memory::Dedicated(memory) => ensure(&self.ring, memory, index.plan.end)?,
            Memory::Larger(slots, _) if index.plan.end > slots.slot_bytes() => {
                self.move_to_dedicated(index.plan.end - HEADER_BYTES, payload_bytes)?;
            }
            Memory::Larger(..) | Memory::Slot(_) | Memory::None => {}
        }
        self.fits(index.plan.end)?;
        index.write(self.bytes(), columns);
        self.write_views(&mut index, columns);
        Ok(index)
    }

    /// Writes the views of strings after the index, if consumers want them and there is room: a
    /// batch without views is whole, too.
    fn write_views(&mut self, index: &mut Index, columns: &[Column]) {
        let views = self.ring.wanted_views();
        if views == 0 {
            return;
        }
        let ring = self.ring.clone();
        let fields = ring.fields().unwrap_or_default();
        let end = index.end_with_views(views);
        if let Memory::Dedicated(memory) = &mut self.memory
            && memory.ensure(&dedicated_name(&ring), end, &ring.budget).is_err()
        {
            return;
        }
        if let Some(memory) = self.bytes().get_mut(..end) {
            index.write_views(memory, fields, columns);
        }
    }

    fn bytes(&mut self) -> &mut [u8] {
        match &mut self.memory {
            // SAFETY: in the table this slot is `Filling` for as long as this writer has it. So no
            // consumer has a grant of it and no other writer has it; and through this writer,
            // `&mut self` allows one slice at a time.
            Memory::Slot(slot) => unsafe { self.ring.memory.slot(*slot) },
            // SAFETY: as above: the table has one state for each larger slot, too.
            Memory::Larger(slots, at) => unsafe { slots.slot(*at) },
            Memory::Dedicated(memory) => memory.bytes(),
            Memory::None => &mut [],
        }
    }

    fn fits(&mut self, bytes: usize) -> Result<(), RingError> {
        let limit = self.bytes().len();
        if bytes <= limit { Ok(()) } else { Err(RingError::TooLarge { bytes, limit }) }
    }
}

/// The payload area, as in [`Writer::payload`].
impl AsRef<[u8]> for Writer {
    fn as_ref(&self) -> &[u8] {
        let memory = match &self.memory {
            // SAFETY: as in `bytes`; writing needs `&mut self`.
            Memory::Slot(slot) => unsafe { self.ring.memory.slot_to_read(*slot) },
            // SAFETY: as above.
            Memory::Larger(slots, at) => unsafe { slots.slot_to_read(*at) },
            Memory::Dedicated(memory) => memory.bytes_to_read(),
            Memory::None => &[],
        };
        memory.get(HEADER_BYTES..).unwrap_or(&[])
    }
}

impl ChunkMemory for Writer {
    /// This is possible only in a slot: a dedicated buffer may be replaced by a larger one while it
    /// is filled.
    fn shared(&self) -> Option<SharedPart<'_>> {
        let SharedPart { file, offset } = match &self.memory {
            Memory::Slot(slot) => self.ring.memory.shared_slot(*slot),
            Memory::Larger(slots, at) if self.ring.larger_limit.are_shown() => {
                slots.shared_slot(*at)
            }
            Memory::Larger(..) | Memory::Dedicated(_) | Memory::None => return None,
        };
        Some(SharedPart { file, offset: offset + HEADER_BYTES as u64 })
    }
}

/// This is limited in a slot: a dedicated buffer grows for its index when it is granted.
impl BatchMemory for Writer {
    fn write_index(&mut self, payload: usize, texts: usize, columns: &[Column]) -> bool {
        let fits = match &self.memory {
            Memory::Slot(_) => true,
            // It does not move here: that may take long.
            Memory::Larger(slots, _) => Index::of(payload, texts, columns)
                .is_ok_and(|index| index.plan.end <= slots.slot_bytes()),
            Memory::Dedicated(_) | Memory::None => false,
        };
        let mut write = || self.write_columns(columns.len(), payload, texts, columns).ok();
        self.index = if fits { write() } else { None };
        self.index.is_some()
    }

    fn wanted_views(&self) -> usize {
        self.ring.wanted_views()
    }

    fn take_index(&mut self) -> Option<Vec<Column>> {
        let index = self.index.take()?;
        Some(index.read(self.bytes()))
    }
}

/// The payload area, as in [`Writer::payload`].
impl AsMut<[u8]> for Writer {
    fn as_mut(&mut self) -> &mut [u8] {
        self.payload()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.ring.put_back(slot);
        }
        if self.is_extra {
            self.ring.extra_filled.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Writes the names and the header of a batch with this number. `memory` must extend to the index's
/// end.
pub(super) fn write_header(memory: &mut [u8], info: &BatchInfo<'_>, index: &Index, batch: u64) {
    let plan = &index.plan;
    let position = &info.position;
    let identity = position.identity_text();
    let metadata_at = plan.object_at + position.object.len();
    let identity_at = metadata_at + info.metadata.len();
    let header = Header {
        batch,
        epoch: position.epoch,
        has_absent: info.has_absent,
        has_inputs: !position.inputs.is_empty(),
        has_views: index.has_views,
        records: index.records as u32,
        fields: index.fields as u32,
        payload_at: HEADER_BYTES as u64,
        payload_bytes: info.payload_bytes as u64,
        index_at: plan.index_at as u64,
        // These fit a u32: `check_size` has checked the payload, and a name is never 4 GiB.
        object_at: plan.object_at as u32,
        object_bytes: position.object.len() as u32,
        metadata_at: if info.metadata.is_empty() { 0 } else { metadata_at as u32 },
        metadata_bytes: info.metadata.len() as u32,
        first_record: position.first_record,
        object_offset: info.object_offset,
        padding: info.padding,
        object_number: position.object_number,
        restart_header: position.header,
        restart_offset: position.offset,
        restart_records: position.records,
        identity_at: if identity.is_empty() { 0 } else { identity_at as u32 },
        identity_bytes: identity.len() as u32,
    };
    memory[..HEADER_BYTES].copy_from_slice(&header.encode());
    let mut put = |at: usize, bytes: &[u8]| memory[at..at + bytes.len()].copy_from_slice(bytes);
    put(plan.object_at, position.object.as_bytes());
    put(metadata_at, info.metadata.as_bytes());
    put(identity_at, identity.as_bytes());
}

/// Makes a dedicated buffer of the ring at least this large.
fn ensure(ring: &Ring, memory: &mut DedicatedBuffer, bytes: usize) -> Result<(), WriteError> {
    if bytes <= memory.len() {
        return Ok(());
    }
    let name = dedicated_name(ring);
    ring.allocate(|budget| memory.ensure(&name, bytes, budget))
}

/// The name of a channel's dedicated buffers in `/proc/PID/maps`.
fn dedicated_name(ring: &Ring) -> String {
    format!("pipemill:{}:dedicated", ring.config().channel)
}

/// Where the values of a column lie.
fn place_of(column: &Column) -> Place<'_> {
    match column.even() {
        Some(even) => Place::Even(even),
        None => Place::Listed { offsets: column.offsets(), lengths: column.lengths() },
    }
}

pub(super) fn check_columns(fields: usize, columns: &[Column]) -> Result<(), RingError> {
    let records = columns.first().map_or(0, Column::len);
    let is_whole = |column: &Column| match place_of(column) {
        Place::Even(even) => even.records as usize == records && even.size != LISTED,
        Place::Listed { offsets, lengths } => offsets.len() == records && lengths.len() == records,
    };
    match columns.len() == fields && columns.iter().all(is_whole) && u32::try_from(records).is_ok()
    {
        true => Ok(()),
        false => Err(RingError::Columns { fields, columns: columns.len(), records }),
    }
}

pub(super) fn check_size(payload_bytes: usize) -> Result<(), RingError> {
    // The position of the name, which follows the payload, must also be a u32.
    match payload_bytes <= MAX_PAYLOAD - HEADER_BYTES {
        true => Ok(()),
        false => {
            Err(RingError::TooLarge { bytes: payload_bytes, limit: MAX_PAYLOAD - HEADER_BYTES })
        }
    }
}
