//! The RecordIO framing of MXNet and dmlc: one field `data` a record. What the payload means (images,
//! protobuf) is not looked at.
//!
//! Follows `recordio.h` of dmlc-core. A part is `magic · cflag << 29 | length · payload · pad to 4`,
//! all little-endian. A record in one part (cflag 0) is a span of the chunk; the parts of a longer one
//! (cflag 1, then 2s, then 3) are joined, with the magic put back between them or plainly, as the
//! option `multipart` says.

mod parts;

use parts::{HEADER, Joined, MAGIC, Parts, padded};
use pipemill_plugin::{
    DecodeError, Decoder, Field, OptionSpec, Options, Progress, Records, Resync, StreamInfo,
};

/// The `recordio` decoder.
#[derive(Debug)]
pub struct RecordIo {
    parts: Parts,
}

pipemill_plugin::export!(RecordIo);

impl Decoder for RecordIo {
    fn options() -> Vec<OptionSpec> {
        vec![OptionSpec::choice(
            "multipart",
            &["dmlc", "concat"],
            "dmlc",
            "how the parts of a record are joined: with the magic between them (dmlc, MXNet) \
             or plainly (concat: MLIO, PipeModeDataset)",
        )]
    }

    fn open(options: &Options, info: &StreamInfo) -> Result<Self, String> {
        let magic_between = options.text("multipart") != "concat";
        Ok(Self { parts: Parts { magic_between, max_record: info.max_record } })
    }

    fn schema(&self) -> Option<Vec<Field>> {
        Some(vec![Field::bytes("data")])
    }

    fn decode(
        &mut self,
        chunk: &[u8],
        _end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        let mut at = 0;
        loop {
            at = self.whole_records(chunk, at, out);
            match self.parts.look(chunk, at)? {
                Joined::Whole { end } => {
                    out.field_made(|payload| self.parts.join(&chunk[at..end], payload));
                    out.end_record(at);
                    at = end;
                }
                Joined::Cut { need } => return Ok(Progress { consumed: at, need }),
            }
        }
    }

    fn resync(&mut self, chunk: &[u8], end: bool) -> Resync {
        // Parts are padded, so from one header the next is a multiple of 4 bytes away.
        let mut at = 0;
        while let Some(header) = chunk.get(at..at + HEADER) {
            if header[..4] == MAGIC && header[7] >> 5 <= 1 {
                return Resync { consumed: at, found: true };
            }
            at += 4;
        }
        Resync { consumed: if end { chunk.len() } else { at }, found: false }
    }
}

impl RecordIo {
    /// Emits the records in one part that lie whole in the chunk from `at` on; answers where the first
    /// thing else stands. This is the loop that nearly every byte of nearly every file goes through.
    #[inline]
    fn whole_records(&self, chunk: &[u8], mut at: usize, out: &mut Records) -> usize {
        const MAGIC_WORD: u64 = u32::from_le_bytes(MAGIC) as u64;
        while let Some(header) = chunk[at..].first_chunk::<HEADER>() {
            // Magic and cflag in one look: with cflag 0, the length is all that stands above the magic.
            let word = u64::from_le_bytes(*header);
            let length = (word >> 32) as usize;
            let payload = at + HEADER;
            if word & 0xe000_0000_ffff_ffff != MAGIC_WORD
                || length as u64 > self.parts.max_record
                || padded(length) > chunk.len() - payload
            {
                break;
            }
            out.span(at, payload..payload + length);
            at = payload + padded(length);
        }
        at
    }
}
