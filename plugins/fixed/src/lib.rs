//! Records of a fixed size, after an optional header that is skipped. A record has one field
//! `data`, or the fields of the option `fields`. The decoder does not look at the bytes; numbers
//! are little-endian.
//!
//! **State between calls.** The only state is the number of bytes of the header that are left.
//! After the header only complete records are consumed, so every chunk starts at the start of a
//! record.
//!
//! **Errors.** Any byte is valid, so the only error is an input that ends inside the header or a
//! record.

mod layout;

use layout::Layout;
use pipemill_parsing::head::{self, Checked, Head};
use pipemill_plugin::{
    DecodeError, Decoder, Field, OptionSpec, Options, Progress, Records, StreamInfo,
};

/// The `fixed` decoder.
#[derive(Debug)]
pub struct Fixed {
    head: Head,
    layout: Layout,
    /// Size of the header in bytes.
    header: u64,
    /// Number of bytes of the header that are not consumed yet.
    header_left: u64,
}

#[cfg(feature = "export")]
pipemill_plugin::export!(Fixed);

impl Decoder for Fixed {
    fn options() -> Vec<OptionSpec> {
        vec![
            OptionSpec::int("size", None, "bytes of a record; required if the types don't give it"),
            OptionSpec::int("header", Some("0"), "bytes to skip at the start of each object"),
            OptionSpec::string(
                "type",
                None,
                "type of the field `data`: bytes, or int8 to int64, uint8 to uint64, float16, \
                 bfloat16, float32, float64; default: bytes",
            ),
            OptionSpec::string(
                "shape",
                None,
                "shape of the field `data`, as in \"28,28\"; default: one number",
            ),
            OptionSpec::string(
                "fields",
                None,
                "several fields, one after the other, instead of `data`: as in \
                 \"label:int32,image:bytes[784]\"",
            ),
            head::option(),
        ]
    }

    fn open(options: &Options, info: &StreamInfo) -> Result<Self, String> {
        let header = options.int("header").unwrap_or(0);
        let head = Head::sniffing(options, info).skipping(header);
        Ok(Self { head, ..Self::of_layout(Layout::new(options)?, header, info)? })
    }

    fn schema(&self) -> Option<Vec<Field>> {
        Some(self.layout.schema())
    }

    fn restart(&self) -> Option<u64> {
        Some(self.header)
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
        if (chunk.len() as u64) < self.header_left {
            return self.skip_header(chunk.len(), end);
        }
        // The value fits: the chunk is not shorter.
        let from = self.header_left as usize;
        self.header_left = 0;
        let size = self.layout.size;
        let whole = from + (chunk.len() - from) / size * size;
        self.layout.emit(from..whole, out);
        Ok(Progress::consumed(whole).and_wants(size))
    }
}

impl Fixed {
    /// For a decoder that wraps this one: records that are one number or one array of numbers,
    /// after a header of `header` bytes that is skipped. The field's shape has no size of 0. The
    /// object's first bytes are not examined.
    ///
    /// # Errors
    /// A message for the operator: a record has no byte, or more than `max_record`.
    pub fn of_numbers(field: Field, header: u64, info: &StreamInfo) -> Result<Self, String> {
        Self::of_layout(Layout::of_numbers(field)?, header, info)
    }

    /// Bytes of a record.
    pub fn record_bytes(&self) -> usize {
        self.layout.size
    }

    fn of_layout(layout: Layout, header: u64, info: &StreamInfo) -> Result<Self, String> {
        let (size, max) = (layout.size, info.max_record);
        if size as u64 > max {
            return Err(format!(
                "records of {size} bytes are larger than max_record ({max} bytes); raise max_record"
            ));
        }
        Ok(Self { head: Head::unchecked(), layout, header, header_left: header })
    }

    /// Skips the part of the header that is in the chunk, whose length is `held`, except for the
    /// last byte. The last byte is kept so that an input that ends inside the header has its error
    /// at that byte, regardless of the split.
    fn skip_header(&mut self, held: usize, end: bool) -> Result<Progress, DecodeError> {
        if end && held > 0 {
            let message = format!(
                "expected {} more bytes of the header, found the end of the input; the object is cut \
                 short, or the option `header` is not its size",
                self.header_left - held as u64
            );
            return Err(DecodeError::fatal(held - 1, message));
        }
        let consumed = held.saturating_sub(1);
        self.header_left -= consumed as u64;
        Ok(Progress::consumed(consumed).and_wants(self.header_left.min(2) as usize))
    }
}
