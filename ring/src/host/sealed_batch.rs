//! A batch in memory of its own, which belongs to no ring: it is filled, sealed, and handed to one
//! reader. Its layout is that of a slot. Once the reader does not need it any more, its memory can
//! have another batch: new memory would cost several times as much.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use pipemill_types::{Column, MemoryBudget};

use super::config::RingError;
use super::index::Index;
use super::writer::{BatchInfo, MAX_PAYLOAD, check_columns, check_size, write_header};
use crate::layout::{HEADER_BYTES, index_room};
use crate::memory::DedicatedBuffer;

/// A batch that is being filled.
#[derive(Debug)]
pub struct SealedBatch {
    name: String,
    memory: DedicatedBuffer,
    budget: Arc<MemoryBudget>,
}

/// The memory of a batch that was handed over. Only this process can write to it.
#[derive(Debug)]
pub struct SealedMemory {
    memory: DedicatedBuffer,
    /// Bytes of the batch.
    bytes: u64,
}

impl SealedMemory {
    /// The descriptor to hand out, which gives read access only.
    pub fn fd(&self) -> Arc<OwnedFd> {
        self.memory.fd()
    }

    /// Bytes of the batch.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of the memory.
    pub fn size(&self) -> usize {
        self.memory.len()
    }
}

impl SealedBatch {
    /// Memory for `payload` bytes of payload, for names of `texts` bytes, and for the index of
    /// `records` records with `fields` fields. `name` is its name in `/proc/PID/maps`.
    ///
    /// # Errors
    /// [`RingError::TooLarge`] if the payload is not below 4 GiB, [`RingError::Memory`] if the
    /// kernel does not grant the memory.
    pub fn create(
        name: &str,
        payload: usize,
        texts: usize,
        fields: usize,
        records: usize,
    ) -> Result<Self, RingError> {
        let budget = MemoryBudget::unlimited();
        let bytes = Self::size(payload, texts, fields, records)?;
        let memory = DedicatedBuffer::create(name, bytes, &budget)?;
        Ok(Self { name: name.to_owned(), memory, budget })
    }

    /// Another batch in memory whose batch nobody reads any more.
    pub fn again(name: &str, memory: SealedMemory) -> Self {
        let budget = MemoryBudget::unlimited();
        Self { name: name.to_owned(), memory: memory.memory, budget }
    }

    /// Bytes of the memory of such a batch: see [`create`](Self::create).
    ///
    /// # Errors
    /// [`RingError::TooLarge`] if the payload or the batch is not below 4 GiB.
    pub fn size(
        payload: usize,
        texts: usize,
        fields: usize,
        records: usize,
    ) -> Result<usize, RingError> {
        check_size(payload)?;
        let room = index_room(payload, texts, fields, records);
        let bytes = (HEADER_BYTES + payload).saturating_add(room);
        if bytes > MAX_PAYLOAD {
            return Err(RingError::TooLarge { bytes, limit: MAX_PAYLOAD });
        }
        Ok(bytes)
    }

    /// The payload area, which starts at a multiple of 64. It contains zeros, or the bytes of an
    /// older batch. It has at least as many bytes as were asked for.
    pub fn payload(&mut self) -> &mut [u8] {
        self.memory.bytes().get_mut(HEADER_BYTES..).unwrap_or_default()
    }

    /// Writes the index and the header, with this number of the batch, and seals the memory: no
    /// other process can write to it.
    ///
    /// # Errors
    /// [`RingError::Columns`] if the columns are not of the same length, [`RingError::TooLarge`] if
    /// they do not fit, [`RingError::Memory`] if the kernel does not grant the memory.
    pub fn seal(
        mut self,
        batch: u64,
        info: &BatchInfo<'_>,
        columns: &[Column],
    ) -> Result<SealedMemory, RingError> {
        check_columns(columns.len(), columns)?;
        check_size(info.payload_bytes)?;
        let index = Index::of(info.payload_bytes, info.text_bytes(), columns)?;
        if index.end > MAX_PAYLOAD {
            return Err(RingError::TooLarge { bytes: index.end, limit: MAX_PAYLOAD });
        }
        self.memory.ensure(&self.name, index.end, &self.budget)?;
        index.write(self.memory.bytes(), columns);
        write_header(self.memory.bytes(), info, &index, batch);
        self.memory.seal(index.end)?;
        Ok(SealedMemory { memory: self.memory, bytes: index.end as u64 })
    }
}
