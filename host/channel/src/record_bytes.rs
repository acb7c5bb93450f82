//! Measures how many bytes the first records of a channel take, so that the memory of a batch of a
//! fixed size can be chosen before there is a batch.

use std::sync::Arc;

use pipemill_types::Field;

use crate::batch::copy::dense::row_sizes;
use crate::channel::Channel;
use crate::memory_sink::{LookAtRecords, MemorySink};
use crate::{Batch, ChannelStats, ErrorPolicy, OnError, StopReason, Workers};

/// Bytes of memory for the records that are measured together.
const MEMORY: usize = 1 << 20;
/// No more records are measured once their values have this many bytes.
const ENOUGH_BYTES: usize = 8 << 20;
/// The fewest records that say something about the others.
const FEW_RECORDS: usize = 16;

/// The bytes of a channel's first records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecordBytes {
    /// Number of records that were measured.
    pub records: usize,
    /// Bytes of a batch's payload that they take.
    pub payload: usize,
    /// Number of fields.
    pub fields: usize,
    /// Number of fields of which Arrow has views.
    pub texts: usize,
    /// Whether all records have the same size.
    pub is_fixed: bool,
}

impl RecordBytes {
    /// The bytes of records with these fields, all of whose values take `bytes` bytes, if they are
    /// copied. `None` if there is no record.
    pub fn known(fields: &[Field], records: u64, bytes: u64) -> Option<Self> {
        let measured = Self {
            records: usize::try_from(records).ok()?,
            payload: usize::try_from(bytes).ok()?,
            fields: fields.len(),
            texts: fields.iter().filter(|field| field.is_text()).count(),
            is_fixed: row_sizes(fields).iter().all(Option::is_some),
        };
        Some(measured).filter(|measured| measured.records > 0)
    }

    /// The bytes of payload that a batch of this many records is likely to take at most.
    pub fn of_batch(&self, records: usize) -> usize {
        let RecordBytes { records: measured, payload, is_fixed, .. } = *self;
        let likely = payload as u128 * records as u128 / measured.max(1) as u128;
        // The sum of hundreds of records seldom differs by more from its mean.
        let most = if is_fixed { likely } else { likely + likely / 4 };
        usize::try_from(most).unwrap_or(usize::MAX)
    }
}

impl Channel {
    /// Measures the first records that this channel reads. They are to be in batches of `records`
    /// records each; `are_copied` says whether these batches are filled with copies of values. If a
    /// batch is far smaller than `small` bytes, few records are measured. `None` if none can be
    /// decoded.
    pub fn measure(self, records: usize, are_copied: bool, small: usize) -> Option<RecordBytes> {
        let skips = !matches!(self.policy.on_error(), OnError::Fail);
        let on_error = if skips { OnError::Skip } else { OnError::Fail };
        let mut channel = Channel {
            policy: ErrorPolicy::new(on_error, self.policy.on_plugin_error(), 0),
            batch: None,
            shuffle: None,
            workers: Workers::new(1),
            inflates_in_background: false,
            resume: None,
            observers: Vec::new(),
            ..self
        };
        let looker = Measuring { wanted: records, are_copied, small, ..Measuring::default() };
        let mut sink = MemorySink::new(looker, MEMORY);
        // It stops after a few records, or fails, which the channel itself will report.
        let _ = channel.run(&mut sink, &ChannelStats::default());
        Some(sink.looker.measured).filter(|measured| measured.records > 0)
    }
}

/// Adds the bytes of records up until there are enough.
#[derive(Default)]
struct Measuring {
    /// Number of records of a batch.
    wanted: usize,
    are_copied: bool,
    small: usize,
    row_sizes: Vec<Option<usize>>,
    measured: RecordBytes,
}

impl Measuring {
    fn is_enough(&self) -> bool {
        let RecordBytes { records, payload, is_fixed, .. } = self.measured;
        let is_small =
            || records >= FEW_RECORDS && self.measured.of_batch(self.wanted) < self.small / 2;
        is_fixed || records >= self.wanted || payload >= ENOUGH_BYTES || is_small()
    }
}

impl LookAtRecords for Measuring {
    fn schema(&mut self, fields: &Arc<[Field]>) {
        self.row_sizes = row_sizes(fields);
        self.measured.fields = fields.len();
        self.measured.texts = fields.iter().filter(|field| field.is_text()).count();
        self.measured.is_fixed = self.row_sizes.iter().all(Option::is_some);
    }

    fn batch(&mut self, _: &[u8], batch: &Batch) -> Result<(), StopReason> {
        let (_, with_arrays) = batch.scattered(&self.row_sizes);
        self.measured.payload += match self.are_copied {
            true => {
                let values: u64 = batch.columns.iter().map(|of| of.bytes(0..of.len())).sum();
                values as usize + with_arrays - batch.payload
            }
            false => with_arrays,
        };
        self.measured.records += batch.records;
        if self.is_enough() { Err(StopReason::Stopped) } else { Ok(()) }
    }

    fn end_epoch(&mut self) -> Result<(), StopReason> {
        Err(StopReason::Stopped)
    }
}
