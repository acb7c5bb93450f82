//! NumPy's `.npy` files: a record for each row of the array, that is, for each index of its first
//! dimension. An array without dimensions is one record. Rows are spans of the chunk.
//!
//! Several arrays may follow each other, as when `np.save` writes them to one open file. Their rows
//! must have the same fields.
//!
//! **State between calls.** The state is the rest of the array, in rows. A chunk starts with a
//! header or with a row. A header is consumed together with the bytes that prove that the data
//! begins, and a row, except for the last one, only when the byte after it has arrived. So an input
//! that ends too early always has an unconsumed byte, at which the error is reported.
//!
//! **Searching.** After a damaged header the end of the array is unknown. The search looks for the
//! magic of the next one.

use pipemill_parsing::head::Head;
use pipemill_parsing::npy::{
    ArrayBytes, ArrayLayout, HeaderError, MAGIC, NpyHeader, ReadHeader, display_fields, read_header,
};
use pipemill_plugin::{
    DecodeError, Decoder, Field, Options, Progress, Records, Resync, StreamInfo,
};

/// The `npy` decoder.
#[derive(Debug)]
pub struct Npy {
    head: Head,
    /// Largest row in bytes.
    max_record: u64,
    /// Whether the input may end here: there was an array, or an error.
    may_end: bool,
    /// The fields of the first array.
    fields: Option<Vec<Field>>,
    /// The array whose rows follow.
    array: Option<Array>,
    /// Whether nothing of the object was decoded yet.
    at_start: bool,
    /// Size of the header of the array whose rows follow, if the object begins with that array.
    first_header: Option<u64>,
    /// Number of bytes of the object between the first header and the bytes that are passed after
    /// it: see [`Decoder::restart`].
    skipped: u64,
    /// Whether the first header is passed alone.
    is_restart: bool,
}

/// An array whose rows are being read.
#[derive(Debug)]
struct Array {
    layout: ArrayLayout,
    /// Number of rows that were not read yet, at least 1.
    left: u64,
    /// Size of a row in bytes.
    row: usize,
}

#[cfg(feature = "export")]
pipemill_plugin::export!(Npy);

impl Decoder for Npy {
    fn open(_: &Options, info: &StreamInfo) -> Result<Self, String> {
        // Offsets in the sandbox have 32 bits.
        let max_record = info.max_record.min(u32::MAX.into());
        Ok(Self {
            head: Head::new(info).of_decoder("npy"),
            max_record,
            may_end: false,
            fields: None,
            array: None,
            at_start: true,
            first_header: None,
            skipped: info.restart().map_or(0, |at| at.place.saturating_sub(at.header)),
            is_restart: info.restart().is_some_and(|at| at.header > 0),
        })
    }

    fn schema(&self) -> Option<Vec<Field>> {
        None
    }

    fn restart(&self) -> Option<u64> {
        // The bytes of an array alone don't show which of several arrays it is.
        self.array.as_ref().and(self.first_header)
    }

    fn decode(
        &mut self,
        chunk: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        let result = self.decode_records(chunk, end, out);
        self.head.explain(chunk, end, result)
    }

    fn resync(&mut self, chunk: &[u8], end: bool) -> Resync {
        if let Some(at) = memchr::memmem::find(chunk, MAGIC) {
            return Resync { consumed: at, found: true };
        }
        // The chunk may end with the first bytes of a magic.
        let kept = (1..MAGIC.len()).rev().find(|count| chunk.ends_with(&MAGIC[..*count]));
        let kept = kept.filter(|_| !end).unwrap_or(0);
        Resync { consumed: chunk.len() - kept, found: false }
    }
}

/// The result of a step.
enum Step {
    /// Decoding continues at this offset.
    GoOn(usize),
    /// More bytes are needed: `decode` returns this.
    Return(Progress),
}

impl Npy {
    /// Emits the records that are completely in the chunk.
    fn decode_records(
        &mut self,
        chunk: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        let mut at = 0;
        loop {
            let step = match self.array.take() {
                None => self.header(chunk, at, end, out),
                Some(mut array) => {
                    let step = array.rows(chunk, at, end, out);
                    self.array = Some(array).filter(|array| step.is_ok() && array.left > 0);
                    step
                }
            };
            self.may_end |= step.is_err();
            self.at_start &= step.is_ok();
            match step? {
                Step::GoOn(next) => at = next,
                Step::Return(progress) => return Ok(progress),
            }
        }
    }

    /// Reads the header at `at`.
    fn header(
        &mut self,
        chunk: &[u8],
        at: usize,
        end: bool,
        out: &mut Records,
    ) -> Result<Step, DecodeError> {
        let rest = &chunk[at..];
        if rest.is_empty() && end && self.may_end {
            return Ok(Step::Return(Progress::consumed(at)));
        }
        let header = match read_header(rest) {
            Ok(ReadHeader::Whole(header)) => header,
            Ok(ReadHeader::Cut { need }) if end => {
                let message = format!(
                    "expected an array of NumPy, whose header has at least {need} bytes, found the end \
                     of the input after {}; it is cut short, or this is not .npy",
                    rest.len()
                );
                return Err(DecodeError::fatal(at, message));
            }
            Ok(ReadHeader::Cut { need }) => return Ok(wants(at, need)),
            Err(HeaderError::Version(why)) => return Err(DecodeError::refused(at, why)),
            Err(HeaderError::Damaged(why)) => {
                let what = if self.fields.is_some() {
                    "this is not .npy, or there are bytes after an array"
                } else {
                    "this is not .npy"
                };
                return Err(DecodeError::searchable(at, format!("{why}; {what}"), at as u64 + 1));
            }
        };
        let data = at + header.size;
        let layout = header.rows("data").map_err(|why| refused(at, &why))?;
        // Only Python objects have no known size, and they are refused.
        let next = (data as u64).saturating_add(header.data.unwrap_or(u64::MAX));
        let skip = |why| Err(DecodeError::skippable(at, why, next));
        if layout.record > self.max_record {
            return skip(format!(
                "rows of {} bytes are larger than max_record ({} bytes); raise max_record",
                layout.record, self.max_record
            ));
        }
        match &self.fields {
            Some(fields) if fields != layout.fields() => {
                return skip(format!(
                    "expected an array with rows of {}, as before in this input, found rows of {}",
                    display_fields(fields),
                    display_fields(layout.fields())
                ));
            }
            Some(_) => {}
            None => {
                out.set_schema(layout.fields());
                self.may_end = true;
                self.fields = Some(layout.fields().to_vec());
            }
        }
        if layout.records == 0 {
            self.at_start = false;
            return Ok(Step::GoOn(data));
        }
        if rest.len() == header.size && !(self.at_start && self.is_restart) {
            return match end {
                true => Err(cut_short(at, &header)),
                false => Ok(wants(at, header.size + 1)),
            };
        }
        // The value fits: max_record does.
        let (mut left, row) = (layout.records, layout.record as usize);
        self.first_header = self.at_start.then_some(header.size as u64);
        if std::mem::replace(&mut self.at_start, false) {
            left = left.saturating_sub(self.skipped / layout.record).max(1);
        }
        self.array = Some(Array { layout, left, row });
        Ok(Step::GoOn(data))
    }
}

impl Array {
    /// Emits the rows that are in the chunk from `at` on.
    fn rows(
        &mut self,
        chunk: &[u8],
        at: usize,
        end: bool,
        out: &mut Records,
    ) -> Result<Step, DecodeError> {
        let Self { layout, left, row } = self;
        let held = chunk.len() - at;
        // A row that is not the last one needs a byte after it.
        let count = match (held / *row) as u64 {
            whole if whole >= *left => *left,
            _ => (held.saturating_sub(1) / *row) as u64,
        };
        // The value fits: the rows are in the chunk.
        let next = at + count as usize * *row;
        let last = *left;
        *left -= count;
        let starts = (at..next).step_by(*row);
        if layout.is_one_span() {
            starts.for_each(|start| out.span(start, start..start + *row));
        } else {
            let first = layout.records - last;
            for (start, number) in starts.zip(first..) {
                if let Err(error) = layout.add_fields(ArrayBytes::Chunk(chunk), start, out) {
                    let message = format!("row {number}: {}", layout.describe(error));
                    out.bad(start..start + *row, message)?;
                    continue;
                }
                out.end_record(start);
            }
        }
        if *left == 0 {
            return Ok(Step::GoOn(next));
        }
        if end {
            let message = format!(
                "expected {} rows of {row} bytes, found the end of the input after {} rows and {} bytes; \
                 the array is cut short",
                layout.records,
                layout.records - *left,
                chunk.len() - next
            );
            return Err(DecodeError::fatal(next, message));
        }
        Ok(wants(next, if *left == 1 { *row } else { *row + 1 }))
    }
}

/// Everything up to `at` is finished, and `need` bytes from there on are needed.
fn wants(at: usize, need: usize) -> Step {
    Step::Return(Progress::consumed(at).and_wants(need))
}

#[cold]
fn refused(at: usize, why: &str) -> DecodeError {
    DecodeError::refused(
        at,
        format!("expected an array that can be read row by row, found one with {why}"),
    )
}

/// The input ends after the header at `at`.
#[cold]
fn cut_short(at: usize, header: &NpyHeader) -> DecodeError {
    let message = format!(
        "expected {} bytes of data for the shape {}, found the end of the input after the header; the \
         array is cut short",
        header.data.unwrap_or_default(),
        header.display_shape()
    );
    DecodeError::fatal(at, message)
}
