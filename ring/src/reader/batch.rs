//! A batch that the host has granted: its records in shared memory, and the lease, which ends when
//! the batch is dropped.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use pipemill_types::{BatchPosition, Column, InputPositions, ObjectIdentity};

use super::connection::Connection;
use crate::layout::{ABSENT, Header, Place};
use crate::memory::ReadMemory;
use crate::protocol::{self, Field, Grant};

/// Records of one epoch, in shared memory. Dropping it sends RELEASE, and ACK if that was not sent.
/// A batch that a panic drops is not ACKed until the reader asks for the next batch; if the process
/// ends before, the batch goes to another consumer.
#[derive(Debug)]
pub struct Batch {
    header: Header,
    fields: Arc<[Field]>,
    /// Position and length of the batch in the memory, in bytes.
    from: usize,
    bytes: usize,
    /// The lists of the fields whose values are even, once somebody asked for them.
    made: Box<[OnceLock<Column>]>,
    // The fields are dropped in this order: a dedicated buffer is unmapped before it is RELEASEd.
    memory: Arc<ReadMemory>,
    lease: ReleaseOnDrop,
}

/// One grant, and whether it is ACKed.
#[derive(Debug)]
pub(super) struct Lease {
    connection: Arc<Connection>,
    grant: u64,
    acked: AtomicBool,
}

impl Lease {
    pub(super) fn new(connection: Arc<Connection>, grant: u64) -> Lease {
        Lease { connection, grant, acked: AtomicBool::new(false) }
    }

    /// Sends an ACK, unless it was sent.
    pub(super) fn ack(&self) {
        if !self.acked.swap(true, Ordering::Relaxed) {
            self.connection.send(&protocol::ack(self.grant));
        }
    }
}

#[derive(Debug)]
struct ReleaseOnDrop(Arc<Lease>);

impl Drop for ReleaseOnDrop {
    fn drop(&mut self) {
        let lease = &self.0;
        if std::thread::panicking() && !lease.acked.swap(true, Ordering::Relaxed) {
            return lease.connection.abandon(lease.grant);
        }
        // A RELEASE is also an ACK, and no ACK may follow it.
        lease.acked.store(true, Ordering::Relaxed);
        lease.connection.send(&protocol::release(lease.grant));
    }
}

impl Batch {
    /// Checks the header and every span, so that all later reads are within the memory.
    pub(super) fn open(
        memory: Arc<ReadMemory>,
        from: u64,
        grant: &Grant,
        fields: Arc<[Field]>,
        lease: Arc<Lease>,
    ) -> Result<Batch, String> {
        let range = usize::try_from(from).ok().zip(usize::try_from(grant.bytes).ok());
        // SAFETY: the host has granted this part, and the slice ends before `ReleaseOnDrop` exists.
        let part = range.and_then(|(from, bytes)| unsafe { memory.part(from, bytes) });
        let (Some((from, bytes)), Some(part)) = (range, part) else {
            return Err(format!("GRANT of {} bytes, more than there is", grant.bytes));
        };
        let header = Header::decode(part).map_err(|error| error.to_string())?;
        let expected = (grant.batch, grant.epoch, fields.len());
        let found = (header.batch, header.epoch, header.fields as usize);
        if expected != found {
            return Err(format!(
                "(batch, epoch, fields) of GRANT and SCHEMA are {expected:?}, the header has \
                 {found:?}"
            ));
        }
        for field in 0..fields.len() {
            let place = header.place(part, field).map_err(|error| error.to_string())?;
            if !place.fits(header.payload_bytes) {
                return Err(format!("batch {}: a span outside of the payload", header.batch));
            }
        }
        // This is set only now: a batch that is not returned must not be RELEASEd.
        let made = fields.iter().map(|_| OnceLock::new()).collect();
        Ok(Batch { header, fields, from, bytes, made, memory, lease: ReleaseOnDrop(lease) })
    }

    /// ACKs the batch: the program has processed it, and the host delivers it to nobody again. The
    /// batch stays readable. [`Reader::next`](super::Reader::next) does this for the batch that it
    /// returned before.
    pub fn ack(&self) {
        self.lease.0.ack();
    }

    /// Number of the batch in the channel, from 0.
    pub fn number(&self) -> u64 {
        self.header.batch
    }

    /// Number of the epoch, from 0.
    pub fn epoch(&self) -> u32 {
        self.header.epoch
    }

    /// Number of records.
    pub fn records(&self) -> usize {
        self.header.records as usize
    }

    /// The fields of each record.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Whether at least one field of one record is absent.
    pub fn has_absent(&self) -> bool {
        self.header.has_absent
    }

    /// Name of the object that contains the first record.
    pub fn object(&self) -> &str {
        self.header.object(self.part()).unwrap_or_default()
    }

    /// Number, in its object, of the first record, from 0.
    pub fn first_record(&self) -> u64 {
        self.header.first_record
    }

    /// A byte offset in the object (inflated) at or before the first record.
    pub fn object_offset(&self) -> u64 {
        self.header.object_offset
    }

    /// Number of real records. The records after them are copies of the last one, which fill the
    /// batch.
    pub fn valid(&self) -> usize {
        self.records() - self.header.padding as usize
    }

    /// The origin of the batch's first record, from which it can be found again.
    pub fn position(&self) -> BatchPosition {
        let text = self.header.identity(self.part()).unwrap_or_default();
        let (identity, inputs) = match self.header.has_inputs {
            // The host refuses a state without inputs.
            true => (ObjectIdentity::default(), InputPositions::of_json(text).unwrap_or_default()),
            false => (ObjectIdentity::of(text.to_owned()), InputPositions::default()),
        };
        BatchPosition {
            epoch: self.header.epoch,
            batch: self.header.batch,
            object_number: self.header.object_number,
            object: self.object().to_owned(),
            identity,
            inputs,
            header: self.header.restart_header,
            offset: self.header.restart_offset,
            records: self.header.restart_records,
            first_record: self.header.first_record,
        }
    }

    /// Facts about the object that its decoder reported: a JSON object of strings, or the empty
    /// string.
    pub fn metadata(&self) -> &str {
        self.header.metadata(self.part()).unwrap_or_default()
    }

    /// The payload, to which the offsets refer. The bytes between records are those of the input.
    pub fn payload(&self) -> &[u8] {
        self.header.payload(self.part()).unwrap_or_default()
    }

    /// The bytes of one field of one record, without a copy. `None` if the field is absent, or if
    /// there is no such record or field.
    pub fn field(&self, record: usize, field: usize) -> Option<&[u8]> {
        let (offset, length) = match self.place(field)? {
            Place::Even(even) => {
                (record < self.records()).then(|| (even.offset(record), even.size))?
            }
            Place::Listed { offsets, lengths } => (*offsets.get(record)?, *lengths.get(record)?),
        };
        if offset == ABSENT {
            return None;
        }
        self.payload().get(offset as usize..offset as usize + length as usize)
    }

    /// Where the values of a field lie: without lists, if they are even. `None` if there is no such
    /// field.
    pub fn place(&self, field: usize) -> Option<Place<'_>> {
        self.header.place(self.part(), field).ok()
    }

    /// The start of one field of each record in the payload, in bytes; [`ABSENT`] if it is absent.
    /// It is empty if there is no such field. The first call makes the list of even values.
    pub fn offsets(&self, field: usize) -> &[u32] {
        match self.place(field) {
            Some(Place::Even(even)) => self.made[field].get_or_init(|| even.into()).offsets(),
            Some(Place::Listed { offsets, .. }) => offsets,
            None => &[],
        }
    }

    /// The length of one field of each record, in bytes. It is empty if there is no such field. The
    /// first call makes the list of even values.
    pub fn lengths(&self, field: usize) -> &[u32] {
        match self.place(field) {
            Some(Place::Even(even)) => self.made[field].get_or_init(|| even.into()).lengths(),
            Some(Place::Listed { lengths, .. }) => lengths,
            None => &[],
        }
    }

    /// The batch's bytes. `open` has checked that they are within the memory.
    fn part(&self) -> &[u8] {
        // SAFETY: the grant of this part is RELEASEd when `self` is dropped, after the slice's end.
        unsafe { self.memory.part(self.from, self.bytes) }.unwrap_or_default()
    }
}
