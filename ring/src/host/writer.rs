//! The memory of one batch while it is filled: a slot, or an extent where a record needs more.
//! The payload comes first; name and index go behind it when the batch is granted.

use std::sync::Arc;

pub use pipemill_types::Column;

use super::config::RingError;
use super::ring::Ring;
use super::table::{Batch, Place};
use crate::layout::{ABSENT, HEADER_BYTES, Header, Plan, spans_fit};
use crate::memory::{ExtentMemory, column_bytes};

/// Offsets count in u32, and the largest means "absent".
const MAX_PAYLOAD: usize = ABSENT as usize;

/// What a consumer is told about a batch.
#[derive(Clone, Copy, Debug)]
pub struct BatchInfo<'a> {
    /// From 0.
    pub epoch: u32,
    /// Name of the object that all of the batch's records come from.
    pub object: &'a str,
    /// Number, in the object, of the batch's first record, from 0.
    pub first_record: u64,
    /// A byte offset in the object at or before the first record.
    pub object_offset: u64,
    /// How much of the payload area is the batch's.
    pub payload_bytes: usize,
    /// At least one field of one record is absent.
    pub has_absent: bool,
}

/// A batch's memory that is being filled. Dropped without [`grant`](Writer::grant), it is free
/// again and nobody sees it.
#[derive(Debug)]
pub struct Writer {
    ring: Arc<Ring>,
    /// Taken away when it is granted.
    place: Option<Place>,
    memory: Memory,
}

enum Memory {
    Slot(Place),
    Extent(ExtentMemory),
    /// Sealed and handed out.
    Gone,
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Memory::Slot(place) => write!(f, "Slot({place})"),
            Memory::Extent(_) => f.write_str("Extent"),
            Memory::Gone => f.write_str("Gone"),
        }
    }
}

impl Writer {
    pub(super) fn slot(ring: Arc<Ring>, place: Place) -> Writer {
        Writer { ring, place: Some(place), memory: Memory::Slot(place) }
    }

    /// Makes the extent's memory. Where that fails the place is given back.
    pub(super) fn extent(
        ring: Arc<Ring>,
        place: Place,
        payload_bytes: usize,
    ) -> Result<Writer, RingError> {
        let mut writer = Writer { ring, place: Some(place), memory: Memory::Gone };
        check_size(payload_bytes)?;
        let name = format!("pipemill:{}:extent", writer.ring.config().channel);
        writer.memory = Memory::Extent(ExtentMemory::create(&name, HEADER_BYTES + payload_bytes)?);
        Ok(writer)
    }

    /// Whether this is memory of its own, which can grow.
    pub fn is_extent(&self) -> bool {
        matches!(self.memory, Memory::Extent(_))
    }

    /// The payload area: all that the batch's memory has behind the header, so name and index
    /// must fit in here too, see [`index_room`](crate::layout::index_room). It starts at a
    /// multiple of 64. Holds old bytes, not zeros.
    pub fn payload(&mut self) -> &mut [u8] {
        self.bytes().get_mut(HEADER_BYTES..).unwrap_or_default()
    }

    /// Makes the payload area at least `bytes` long; what was written stays. A slot can't grow.
    pub fn ensure(&mut self, bytes: usize) -> Result<(), RingError> {
        match &mut self.memory {
            Memory::Extent(memory) => {
                check_size(bytes)?;
                Ok(memory.ensure(HEADER_BYTES + bytes)?)
            }
            _ => self.fits(HEADER_BYTES.saturating_add(bytes)),
        }
    }

    /// Writes name, index and header, queues the batch and sends it at once to a consumer that has
    /// credit. Returns the batch's number. An extent grows to what name and index need.
    ///
    /// There must be a column for each field of the schema, all of the same length. On an error
    /// the memory is free again.
    pub fn grant(mut self, info: &BatchInfo<'_>, columns: &[Column]) -> Result<u64, RingError> {
        let records = self.check(info, columns)?;
        let plan = Plan::new(info.payload_bytes, info.object.len(), columns.len(), records);
        let end = plan.map_or(usize::MAX, |plan| plan.end);
        if let Memory::Extent(memory) = &mut self.memory {
            memory.ensure(end)?;
        }
        self.fits(end)?;
        let (Some(plan), Some(place)) = (plan, self.place) else {
            return Err(RingError::TooLarge { bytes: end, limit: MAX_PAYLOAD });
        };
        let number = self.ring.next_batch();
        let batch =
            Batch { number, epoch: info.epoch, records: records as u32, bytes: plan.end as u64 };
        self.write(info, columns, &plan, &batch);
        let sealed = match std::mem::replace(&mut self.memory, Memory::Gone) {
            Memory::Extent(memory) => Some(Arc::new(memory.seal(plan.end)?)),
            Memory::Slot(_) | Memory::Gone => None,
        };
        self.place = None;
        self.ring.push(place, batch, sealed);
        Ok(number)
    }

    fn bytes(&mut self) -> &mut [u8] {
        match &mut self.memory {
            // SAFETY: the table says "filling" of this slot for as long as this writer has it, so
            // no consumer has a grant of it and there is no other writer; `&mut self` does the rest.
            Memory::Slot(place) => unsafe { self.ring.slot(*place) },
            Memory::Extent(memory) => memory.bytes(),
            Memory::Gone => &mut [],
        }
    }

    fn fits(&mut self, bytes: usize) -> Result<(), RingError> {
        let limit = self.bytes().len();
        if bytes <= limit { Ok(()) } else { Err(RingError::TooLarge { bytes, limit }) }
    }

    fn check(&self, info: &BatchInfo<'_>, columns: &[Column]) -> Result<usize, RingError> {
        let fields = self.ring.fields().ok_or(RingError::NoSchema)?;
        let records = columns.first().map_or(0, |column| column.offsets.len());
        let even = |c: &Column| c.offsets.len() == records && c.lengths.len() == records;
        if columns.len() != fields || !columns.iter().all(even) || u32::try_from(records).is_err() {
            return Err(RingError::Columns { fields, columns: columns.len(), records });
        }
        check_size(info.payload_bytes)?;
        debug_assert!(
            columns.iter().all(|c| spans_fit(&c.offsets, &c.lengths, info.payload_bytes as u64)),
            "a span outside the payload of a batch of {}",
            info.object
        );
        Ok(records)
    }

    fn write(&mut self, info: &BatchInfo<'_>, columns: &[Column], plan: &Plan, batch: &Batch) {
        let header = Header {
            batch: batch.number,
            epoch: info.epoch,
            has_absent: info.has_absent,
            records: batch.records,
            fields: columns.len() as u32,
            payload_at: HEADER_BYTES as u64,
            payload_bytes: info.payload_bytes as u64,
            index_at: plan.index_at as u64,
            // Both fit: the payload was checked against u32, and a name is never 4 GiB.
            object_at: plan.object_at as u32,
            object_bytes: info.object.len() as u32,
            first_record: info.first_record,
            object_offset: info.object_offset,
        };
        let stride = crate::layout::stride(batch.records);
        let memory = self.bytes();
        memory[..HEADER_BYTES].copy_from_slice(&header.encode());
        let mut put = |at: usize, bytes: &[u8]| memory[at..at + bytes.len()].copy_from_slice(bytes);
        put(plan.object_at, info.object.as_bytes());
        let lists = columns.iter().flat_map(|column| [&column.offsets, &column.lengths]);
        for (number, list) in lists.enumerate() {
            put(plan.index_at + number * stride, column_bytes(list));
        }
    }
}

/// The payload area, as [`Writer::payload`].
impl AsRef<[u8]> for Writer {
    fn as_ref(&self) -> &[u8] {
        let memory = match &self.memory {
            // SAFETY: as in `bytes`; whoever writes has `&mut self`.
            Memory::Slot(place) => unsafe { self.ring.slot_to_read(*place) },
            Memory::Extent(memory) => memory.bytes_to_read(),
            Memory::Gone => &[],
        };
        memory.get(HEADER_BYTES..).unwrap_or(&[])
    }
}

/// The payload area, as [`Writer::payload`].
impl AsMut<[u8]> for Writer {
    fn as_mut(&mut self) -> &mut [u8] {
        self.payload()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.ring.put_back(place);
        }
    }
}

fn check_size(payload_bytes: usize) -> Result<(), RingError> {
    // The name's place behind the payload must be a u32 too.
    match payload_bytes <= MAX_PAYLOAD - HEADER_BYTES {
        true => Ok(()),
        false => {
            Err(RingError::TooLarge { bytes: payload_bytes, limit: MAX_PAYLOAD - HEADER_BYTES })
        }
    }
}
