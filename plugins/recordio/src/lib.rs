//! RecordIO of MXNet and dmlc: one field `data` per record. The decoder does not examine the
//! payload (images, protobuf). The framing is in `pipemill_parsing::framing::recordio`.

use pipemill_parsing::framing::recordio::{Framing, NextRecord};
use pipemill_parsing::head::Head;
use pipemill_plugin::{
    DecodeError, Decoder, Field, OptionSpec, Options, Progress, Records, Resync, StreamInfo,
};

/// The `recordio` decoder.
#[derive(Debug)]
pub struct RecordIo {
    head: Head,
    framing: Framing,
}

#[cfg(feature = "export")]
pipemill_plugin::export!(RecordIo);

impl Decoder for RecordIo {
    fn options() -> Vec<OptionSpec> {
        vec![Framing::option()]
    }

    fn open(options: &Options, info: &StreamInfo) -> Result<Self, String> {
        Ok(Self { head: Head::new(info), framing: Framing::open(options, info) })
    }

    fn schema(&self) -> Option<Vec<Field>> {
        Some(vec![Field::bytes("data")])
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
        let result = self.decode_records(chunk, out);
        self.head.explain(chunk, end, result)
    }

    fn resync(&mut self, chunk: &[u8], end: bool) -> Resync {
        Framing::resync(chunk, end)
    }
}

impl RecordIo {
    /// Emits the records that are completely in the chunk.
    fn decode_records(&mut self, chunk: &[u8], out: &mut Records) -> Result<Progress, DecodeError> {
        let mut at = 0;
        loop {
            // The fast path: records in one part.
            while let Some(payload) = self.framing.plain(chunk, at) {
                out.span(at, payload.clone());
                at = Framing::next_start(&payload);
            }
            match self.framing.next(chunk, at)? {
                NextRecord::Plain { payload, end } => {
                    out.span(at, payload);
                    at = end;
                }
                NextRecord::Parts { end, .. } => {
                    out.field_made(|payload| self.framing.join(&chunk[at..end], payload));
                    out.end_record(at);
                    at = end;
                }
                NextRecord::Cut { need } => return Ok(Progress::consumed(at).and_wants(need)),
            }
        }
    }
}
