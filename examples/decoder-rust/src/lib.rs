//! A pipemill decoder for a small format, to copy and change. A file is the magic `PSTR`, then
//! records: a length (`u16`, little-endian), then that many bytes.

use pipemill_plugin::{
    DecodeError, Decoder, Field, OptionSpec, Options, Progress, Records, Scalar, StreamInfo,
};

const MAGIC: &[u8] = b"PSTR";
const LENGTH: usize = 2;

/// State that is kept between calls. Never keep a part of a record: the host passes unconsumed
/// bytes again.
pub struct Strings {
    text: bool,
    max_record: u64,
    magic_seen: bool,
}

// Makes the type a plugin. The rest is plain Rust, which `tests/` runs natively.
pipemill_plugin::export!(Strings);

impl Decoder for Strings {
    fn options() -> Vec<OptionSpec> {
        vec![OptionSpec::bool("text", false, "make the field text: strings must be UTF-8")]
    }

    fn open(options: &Options, info: &StreamInfo) -> Result<Self, String> {
        let text = options.is_on("text");
        Ok(Self { text, max_record: info.max_record, magic_seen: false })
    }

    fn schema(&self) -> Option<Vec<Field>> {
        let scalar = if self.text { Scalar::Utf8 } else { Scalar::Bytes };
        Some(vec![Field::new("string", scalar)])
    }

    fn decode(
        &mut self,
        chunk: &[u8],
        _end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        let mut at = 0;
        if !self.magic_seen {
            let Some(magic) = chunk.get(..MAGIC.len()) else {
                return Ok(Progress::wants(MAGIC.len()));
            };
            if magic != MAGIC {
                let message = format!("expected the magic {MAGIC:02x?}, found {magic:02x?}");
                return Err(DecodeError::fatal(0, message));
            }
            self.magic_seen = true;
            at = MAGIC.len();
        }
        while let Some(length) = chunk[at..].first_chunk::<LENGTH>() {
            let length = u64::from(u16::from_le_bytes(*length));
            let (start, end) = (at + LENGTH, (at + LENGTH) as u64 + length);
            // Checked before the string has arrived, so that nobody waits for a bad length.
            let bad = |message| DecodeError::skippable(at, message, end);
            self.check_length(length).map_err(bad)?;
            let end = end as usize;
            let Some(string) = chunk.get(start..end) else {
                // The chunk ends inside the record: leave it unconsumed, and say how many bytes it
                // has.
                return Ok(Progress::consumed(at).and_wants(end - at));
            };
            self.check(string).map_err(bad)?;
            // A span: the bytes stay in the chunk, nothing is copied.
            out.span(at, start..end);
            at = end;
        }
        Ok(Progress::consumed(at).and_wants(LENGTH))
    }
}

impl Strings {
    /// The error is a message: what was expected and what was found. pipemill adds file, offset and
    /// record number.
    fn check_length(&self, length: u64) -> Result<(), String> {
        let max = self.max_record;
        if length > max {
            return Err(format!("a string of {length} bytes is larger than max_record ({max})"));
        }
        Ok(())
    }

    /// The same for the bytes of a string.
    fn check(&self, string: &[u8]) -> Result<(), String> {
        if self.text
            && let Err(error) = str::from_utf8(string)
        {
            let good = error.valid_up_to();
            return Err(format!("expected UTF-8, which ends at byte {good} of the string"));
        }
        Ok(())
    }
}
