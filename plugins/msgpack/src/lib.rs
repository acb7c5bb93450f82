//! A sequence of MessagePack values. A record is the whole value, in one field `value`, or the
//! values that the option `fields` selects from a map or an array, by key or by JSON pointer.
//!
//! Strings and bin are spans of the chunk. Each record is scanned once (`scan`), and its whole
//! structure is checked. If a map has a key twice, the last value counts.
//!
//! **Errors.** A record is framed only by its structure. So after a record that is not valid
//! MessagePack, or larger than `max_record`, the rest of the object can't be decoded. A valid
//! record that does not have the fields is skipped: its end is known.

mod convert;
mod diagnose;
mod errors;
mod fields;
mod format;
mod numbers;
mod runs;
mod scan;
mod template;
mod text;
mod timestamp;

use diagnose::{Diagnosis, diagnose};
use fields::Fields;
use pipemill_parsing::head::{self, Checked, Head};
use pipemill_plugin::{
    DecodeError, Decoder, Field, OptionSpec, Options, Progress, Records, StreamInfo,
};
use scan::Scanner;

/// The `msgpack` decoder.
#[derive(Debug)]
pub struct Msgpack {
    head: Head,
    emit: Emit,
    /// Largest record in bytes.
    max_record: u64,
}

/// The record that a value becomes.
#[derive(Debug)]
enum Emit {
    /// The field `value`.
    Value(Scanner),
    /// The fields that the operator named.
    Fields(Box<Fields>),
}

#[cfg(feature = "export")]
pipemill_plugin::export!(Msgpack);

impl Decoder for Msgpack {
    fn options() -> Vec<OptionSpec> {
        let fields = OptionSpec::string(
            "fields",
            None,
            "values to take from a map or an array, by key or JSON pointer: \
             \"id=/meta/id:int64,text:utf8,vec:float32[128],tag:utf8?\"; default: the whole value, as \
             `value`",
        );
        vec![fields, head::option()]
    }

    fn open(options: &Options, info: &StreamInfo) -> Result<Self, String> {
        let max_record = info.max_record;
        let emit = match options.get("fields") {
            Some(text) => Emit::Fields(Box::new(Fields::new(text, max_record)?)),
            None => Emit::Value(Scanner::new(&[])),
        };
        Ok(Self { head: Head::sniffing(options, info), emit, max_record })
    }

    fn schema(&self) -> Option<Vec<Field>> {
        Some(match &self.emit {
            Emit::Value(_) => vec![Field::bytes("value")],
            Emit::Fields(fields) => fields.schema(),
        })
    }

    fn restart(&self) -> Option<u64> {
        Some(0)
    }

    fn decode(
        &mut self,
        chunk: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        if let Checked::Wait(progress) = self.head.check(chunk, end)? {
            return Ok(progress);
        }
        match &mut self.emit {
            Emit::Value(scanner) => emit_values(scanner, self.max_record, chunk, out),
            Emit::Fields(fields) => emit_fields(fields, self.max_record, chunk, out),
        }
    }
}

/// Emits the values that are completely in the chunk, unchanged.
fn emit_values(
    scanner: &mut Scanner,
    max_record: u64,
    chunk: &[u8],
    out: &mut Records,
) -> Result<Progress, DecodeError> {
    let mut at = 0;
    while let Some(end) = whole(scanner.skip_record(chunk, at), at, max_record) {
        out.span(at, at..end);
        at = end;
    }
    rest(chunk, at, max_record)
}

/// Emits the wanted fields of the values that are completely in the chunk.
fn emit_fields(
    fields: &mut Fields,
    max_record: u64,
    chunk: &[u8],
    out: &mut Records,
) -> Result<Progress, DecodeError> {
    fields.begin_chunk();
    let (mut at, mut made) = (0, 0);
    while let Some(end) = whole(fields.scan(chunk, at), at, max_record) {
        match fields.emit(chunk, at, end, out) {
            Ok(bytes) => made += bytes,
            Err(message) => out.bad(at..end, message)?,
        }
        at = end;
        // Numbers of one byte become larger. `limits.output` is a multiple of `max_record`.
        if made > max_record && at < chunk.len() {
            return Ok(Progress::more(at));
        }
    }
    rest(chunk, at, max_record)
}

/// The end of the record at `at`, unless it is too large.
#[inline(always)]
fn whole(end: Option<usize>, at: usize, max_record: u64) -> Option<usize> {
    end.filter(|end| (end - at) as u64 <= max_record)
}

/// The progress up to `at`, where no complete and valid record starts.
fn rest(chunk: &[u8], at: usize, max_record: u64) -> Result<Progress, DecodeError> {
    let record = &chunk[at..];
    match diagnose(record, max_record) {
        Diagnosis::Cut { need } => {
            let need = usize::try_from(need).unwrap_or(usize::MAX);
            Ok(Progress::consumed(at).and_wants(need))
        }
        Diagnosis::NeverUsed { at: place } => Err(errors::never_used(at, place)),
        Diagnosis::TooDeep { at: place } => Err(errors::too_deep(at, place)),
        Diagnosis::TooLarge { at: place, size } => {
            Err(errors::too_large(record, at, place, size, max_record))
        }
    }
}
