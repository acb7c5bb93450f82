//! A batch of records in shared memory, and its access from C.

use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::ptr::null;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pipemill_ring::layout::{ABSENT, Place};
use pipemill_ring::reader as ring;

use crate::error::{Error, reported};
use crate::guard::{guarded, or_default};
use crate::schema::{Field, Schema};
use crate::text;

/// Records of one epoch, in shared memory. Any thread may read it, several threads concurrently,
/// too. Return it with `pipemill_release`; all pointers that were obtained from it are invalid
/// then.
pub struct Batch {
    ring: ring::Batch,
    schema: Arc<Schema>,
    held: Arc<AtomicUsize>,
}

/// Bytes in the shared memory, or none.
#[repr(C)]
pub struct Bytes {
    /// The first byte; null if there is no such value. It is not aligned. No zero byte follows.
    pub data: *const u8,
    /// Number of bytes.
    pub length: usize,
}

/// The values of one field in all records of a batch, if they are evenly spaced in the memory.
#[repr(C)]
pub struct Column {
    /// The value of the first record. Null if the values are not evenly spaced or not equally long,
    /// if a record does not have the field, and if there is no record.
    pub data: *const u8,
    /// Distance in bytes from one value to the next.
    pub stride: usize,
    /// Size of each value in bytes.
    pub bytes: usize,
    /// Whether each value is aligned for its C type. Otherwise copy it with `memcpy` before you use
    /// it.
    pub aligned: bool,
}

impl Default for Bytes {
    fn default() -> Bytes {
        Bytes { data: null(), length: 0 }
    }
}

impl Bytes {
    fn of(bytes: &[u8]) -> Bytes {
        Bytes { data: bytes.as_ptr(), length: bytes.len() }
    }
}

impl Default for Column {
    fn default() -> Column {
        Column { data: null(), stride: 0, bytes: 0, aligned: false }
    }
}

impl Batch {
    pub(crate) fn new(ring: ring::Batch, schema: Arc<Schema>, held: Arc<AtomicUsize>) -> Batch {
        held.fetch_add(1, Ordering::Relaxed);
        Batch { ring, schema, held }
    }

    fn column(&self, field: usize) -> Option<Column> {
        let (stride, bytes) = match self.ring.place(field)? {
            Place::Even(even) => (even.size, even.size),
            Place::Listed { offsets, lengths } => spacing(offsets, lengths)?,
        };
        let data = self.ring.field(0, field)?.as_ptr();
        let (stride, bytes) = (stride as usize, bytes as usize);
        let unit = self.schema.fields.get(field)?.element_bytes;
        let aligned = data.addr().is_multiple_of(unit) && stride.is_multiple_of(unit);
        Some(Column { data, stride, bytes, aligned })
    }

    fn find(&self, name: &str) -> Result<isize, Error> {
        let fields = self.ring.fields();
        if let Some(found) = fields.iter().position(|field| field.name == name) {
            return Ok(found as isize);
        }
        let known: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
        Err(Error::argument(format!(
            "no field {name:?}; the records of this channel have {}",
            known.join(", ")
        )))
    }
}

/// The distance from one value to the next, and their size, if both are the same for all of them.
fn spacing(offsets: &[u32], lengths: &[u32]) -> Option<(u32, u32)> {
    let (&first, &bytes) = (offsets.first()?, lengths.first()?);
    let stride = match offsets.get(1) {
        Some(second) => second.checked_sub(first)?,
        None => bytes,
    };
    if first == ABSENT || stride < bytes {
        return None;
    }
    // Neither returns early, so that the compiler can vectorize them.
    let even = offsets.windows(2).fold(true, |even, pair| {
        even & (pair[1].wrapping_sub(pair[0]) == stride) & (pair[1] != ABSENT)
    });
    let same = lengths.iter().fold(true, |same, length| same & (*length == bytes));
    (even && same).then_some((stride, bytes))
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.held.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Number of the batch in the channel, from 0.
#[unsafe(no_mangle)]
pub extern "C" fn pipemill_batch_number(batch: Option<&Batch>) -> u64 {
    or_default(|| batch.map_or(0, |batch| batch.ring.number()))
}

/// Number of the epoch, from 0.
#[unsafe(no_mangle)]
pub extern "C" fn pipemill_batch_epoch(batch: Option<&Batch>) -> u32 {
    or_default(|| batch.map_or(0, |batch| batch.ring.epoch()))
}

/// Number of records.
#[unsafe(no_mangle)]
pub extern "C" fn pipemill_batch_records(batch: Option<&Batch>) -> usize {
    or_default(|| batch.map_or(0, |batch| batch.ring.records()))
}

/// Number of real records. The records after them are copies of the last real one, which fill the
/// batch if the tail is "pad". In all other cases, all records are real.
#[unsafe(no_mangle)]
pub extern "C" fn pipemill_batch_valid(batch: Option<&Batch>) -> usize {
    or_default(|| batch.map_or(0, |batch| batch.ring.valid()))
}

/// Name of the object (a file, an S3 key) that contains the first record, in UTF-8.
#[unsafe(no_mangle)]
pub extern "C" fn pipemill_batch_object(batch: Option<&Batch>) -> Bytes {
    or_default(|| {
        batch.map_or_else(Bytes::default, |batch| Bytes::of(batch.ring.object().as_bytes()))
    })
}

/// Facts about the object that its decoder reported: a JSON object of texts, or no bytes.
#[unsafe(no_mangle)]
pub extern "C" fn pipemill_batch_metadata(batch: Option<&Batch>) -> Bytes {
    or_default(|| {
        batch.map_or_else(Bytes::default, |batch| Bytes::of(batch.ring.metadata().as_bytes()))
    })
}

/// Number, in its object, of the first record, from 0.
#[unsafe(no_mangle)]
pub extern "C" fn pipemill_batch_first_record(batch: Option<&Batch>) -> u64 {
    or_default(|| batch.map_or(0, |batch| batch.ring.first_record()))
}

/// Number of fields of each record.
#[unsafe(no_mangle)]
pub extern "C" fn pipemill_batch_fields(batch: Option<&Batch>) -> usize {
    or_default(|| batch.map_or(0, |batch| batch.schema.fields.len()))
}

/// The description of a field. Null if there is no such field. It lives as long as the batch.
#[unsafe(no_mangle)]
pub extern "C" fn pipemill_batch_field(batch: Option<&Batch>, field: usize) -> *const Field {
    guarded(
        |_| null(),
        || batch.and_then(|batch| batch.schema.fields.get(field)).map_or(null(), |field| field),
    )
}

/// Number of the field with this name, from 0. -1 if there is none: `*error` then names the
/// existing fields, unless `error` is null.
#[unsafe(no_mangle)]
pub extern "C" fn pipemill_find_field(
    batch: Option<&Batch>,
    name: *const c_char,
    error: Option<&mut MaybeUninit<*mut Error>>,
) -> isize {
    reported(error, -1, || {
        let missing = "pipemill_find_field: batch is NULL; expected that of an event";
        let name = text::required("pipemill_find_field: name", name)?;
        batch.ok_or_else(|| Error::argument(missing))?.find(name)
    })
}

/// The bytes of one field of one record, in the shared memory. `data` is null if the record does
/// not have the field, and if there is no such record or field.
#[unsafe(no_mangle)]
pub extern "C" fn pipemill_batch_value(
    batch: Option<&Batch>,
    record: usize,
    field: usize,
) -> Bytes {
    or_default(|| {
        batch
            .and_then(|batch| batch.ring.field(record, field))
            .map_or_else(Bytes::default, Bytes::of)
    })
}

/// One field of all records, in the shared memory, if they are evenly spaced: always so for
/// non-nullable numbers of a fixed size when `batch` is set; usually so otherwise. It may examine
/// each record: call it once per batch.
#[unsafe(no_mangle)]
pub extern "C" fn pipemill_batch_column(batch: Option<&Batch>, field: usize) -> Column {
    or_default(|| batch.and_then(|batch| batch.column(field)).unwrap_or_default())
}

/// An array with the start of one field in the payload, in bytes, for each record;
/// `PIPEMILL_ABSENT` if a record does not have the field. Null if there is no such field. The first
/// call may make the array.
#[unsafe(no_mangle)]
pub extern "C" fn pipemill_batch_offsets(batch: Option<&Batch>, field: usize) -> *const u32 {
    part(batch, field, ring::Batch::offsets)
}

/// An array with the length of one field, in bytes, for each record. Null if there is no such
/// field. The first call may make the array.
#[unsafe(no_mangle)]
pub extern "C" fn pipemill_batch_lengths(batch: Option<&Batch>, field: usize) -> *const u32 {
    part(batch, field, ring::Batch::lengths)
}

fn part(
    batch: Option<&Batch>,
    field: usize,
    of: impl for<'b> Fn(&'b ring::Batch, usize) -> &'b [u32],
) -> *const u32 {
    let known = batch.filter(|batch| field < batch.schema.fields.len());
    guarded(|_| null(), || known.map_or(null(), |batch| of(&batch.ring, field).as_ptr()))
}

/// All bytes of the batch, to which the offsets refer: the fields, and the bytes between them in
/// the input.
#[unsafe(no_mangle)]
pub extern "C" fn pipemill_batch_payload(batch: Option<&Batch>) -> Bytes {
    or_default(|| batch.map_or_else(Bytes::default, |batch| Bytes::of(batch.ring.payload())))
}

/// ACKs the batch: the program has processed it, and the host delivers it to nobody else. The batch
/// stays readable. `pipemill_next` does this for the batch that it returned before.
#[unsafe(no_mangle)]
pub extern "C" fn pipemill_ack(batch: Option<&Batch>) {
    or_default(|| batch.map_or((), |batch| batch.ring.ack()));
}

/// Returns the batch, and ACKs it if that was not done. Null is allowed. Pointers that were
/// obtained from it must not be used any more.
///
/// A program that ends without this, and without an ACK, has not processed the batch: the host
/// delivers it to another consumer.
#[unsafe(no_mangle)]
pub extern "C" fn pipemill_release(batch: Option<Box<Batch>>) {
    guarded(|_| (), || drop(batch));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::Reader;

    /// C may pass them between threads, so Rust must agree.
    #[test]
    fn handles_may_go_to_other_threads() {
        fn any_thread<T: Send + Sync>() {}
        any_thread::<Batch>();
        any_thread::<Reader>();
        any_thread::<Error>();
    }
}
