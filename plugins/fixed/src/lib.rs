//! Records of one size each, behind a header that is passed over: one field `data` a record, or the
//! fields that the option `fields` cuts a record into. What the bytes mean is not looked at; numbers
//! are little-endian.
//!
//! **Place matters only for the header.** What has to be known of it is how much is still to come, and
//! that goes down with each byte consumed. Behind it, a chunk always starts where a record starts,
//! because whole records are consumed and nothing else. No byte can be wrong, so there is nothing to
//! go on behind: an input that ends inside of a header or a record is all that can happen.

mod layout;

use layout::Layout;
use pipemill_plugin::{
    DecodeError, Decoder, Field, OptionSpec, Options, Progress, Records, StreamInfo,
};

/// The `fixed` decoder.
#[derive(Debug)]
pub struct Fixed {
    layout: Layout,
    /// Bytes of the header still to come.
    header: u64,
}

pipemill_plugin::export!(Fixed);

impl Decoder for Fixed {
    fn options() -> Vec<OptionSpec> {
        vec![
            OptionSpec::int("size", None, "bytes of a record; needed where no type tells it"),
            OptionSpec::int("header", Some("0"), "bytes to pass over at the start of each object"),
            OptionSpec::string(
                "type",
                None,
                "type of the field `data`: bytes, int32, int64, float32 or float64; bytes if not set",
            ),
            OptionSpec::string(
                "shape",
                None,
                "how many numbers `data` is made of, as in \"28,28\"; one if not set",
            ),
            OptionSpec::string(
                "fields",
                None,
                "several fields, one behind the other, instead of `data`: as in \
                 \"label:int32,image:bytes[784]\"",
            ),
        ]
    }

    fn open(options: &Options, info: &StreamInfo) -> Result<Self, String> {
        let layout = Layout::new(options)?;
        let (size, max) = (layout.size, info.max_record);
        if size as u64 > max {
            return Err(format!(
                "records of {size} bytes are larger than max_record ({max} bytes); raise max_record"
            ));
        }
        Ok(Self { layout, header: options.int("header").unwrap_or(0) })
    }

    fn schema(&self) -> Option<Vec<Field>> {
        Some(self.layout.schema())
    }

    fn decode(
        &mut self,
        chunk: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        if (chunk.len() as u64) < self.header {
            return self.pass_header(chunk.len(), end);
        }
        // Not more than the chunk, so it fits.
        let from = self.header as usize;
        self.header = 0;
        let size = self.layout.size;
        let whole = from + (chunk.len() - from) / size * size;
        self.layout.emit(from..whole, out);
        Ok(Progress { consumed: whole, need: size })
    }
}

impl Fixed {
    /// Passes over what there is of the header, all but for one byte: so the end of the input inside of
    /// a header has a byte to stand at, however the input came.
    fn pass_header(&mut self, held: usize, end: bool) -> Result<Progress, DecodeError> {
        if end && held > 0 {
            let message = format!(
                "expected {} more bytes of the header, found the end of the input; the object is cut \
                 short, or the option `header` is not its size",
                self.header - held as u64
            );
            return Err(DecodeError::fatal(held - 1, message));
        }
        let consumed = held.saturating_sub(1);
        self.header -= consumed as u64;
        Ok(Progress { consumed, need: self.header.min(2) as usize })
    }
}
