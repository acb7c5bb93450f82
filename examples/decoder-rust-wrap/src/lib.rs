//! A pipemill decoder made of another one, to copy and change. The records are those of
//! `length-prefixed`, and each has one more field: the size of the others.

use pipemill_length_prefixed::LengthPrefixed;
use pipemill_plugin::{Field, InnerRecord, MapRecords, Options, Records, Scalar, StreamInfo};

const SIZE: &str = "size";

/// The transformation of a record. It has no state, so decoding can restart wherever the inner
/// decoder can. A transformation with state implements `can_restart`.
pub struct WithSize;

// Makes the type a plugin. The rest is plain Rust, which can be tested natively.
pipemill_plugin::export!(pipemill_plugin::Map<WithSize>);

impl MapRecords for WithSize {
    type Inner = LengthPrefixed;

    fn open(_: &Options, _: &StreamInfo) -> Result<Self, String> {
        Ok(WithSize)
    }

    /// The fields of the records that `map` emits.
    fn schema(&self, inner: &[Field]) -> Result<Vec<Field>, String> {
        if inner.iter().any(|field| field.name == SIZE) {
            return Err(format!("the records have a field `{SIZE}` already"));
        }
        Ok([inner, &[Field::new(SIZE, Scalar::Uint64)]].concat())
    }

    /// An error is a message: what was expected and what was found. The record is a bad one in that
    /// case.
    fn map(&mut self, record: &InnerRecord<'_>, out: &mut Records) -> Result<(), String> {
        let mut size = 0;
        for field in 0..record.fields() {
            size += record.field(field).map_or(0, <[u8]>::len);
            // Passes on the field unchanged: nothing is copied.
            record.pass(field, out);
        }
        out.u64(size as u64);
        out.end_record(record.start());
        Ok(())
    }
}
