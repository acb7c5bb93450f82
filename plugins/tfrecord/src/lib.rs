//! TFRecord of TensorFlow: one field `data` per record. The decoder does not examine the payload
//! (`tf.train.Example`). The framing is in `pipemill_parsing::framing::tfrecord`.

use pipemill_parsing::framing::tfrecord::Framing;
use pipemill_parsing::head::Head;
use pipemill_plugin::{
    DecodeError, Decoder, Field, OptionSpec, Options, Progress, Records, Resync, StreamInfo,
};

/// Number of records that one call of the host checks. Their spans and checksums fit into the L2
/// cache.
const BATCH: usize = 2048;

/// The `tfrecord` decoder.
#[derive(Debug)]
pub struct TfRecord {
    head: Head,
    framing: Framing,
}

#[cfg(feature = "export")]
pipemill_plugin::export!(TfRecord);

impl Decoder for TfRecord {
    fn options() -> Vec<OptionSpec> {
        vec![Framing::option()]
    }

    fn open(options: &Options, info: &StreamInfo) -> Result<Self, String> {
        Ok(Self { head: Head::new(info), framing: Framing::open(options, info, BATCH) })
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
        self.framing.resync(chunk, end)
    }
}

impl TfRecord {
    /// Emits the records that are completely in the chunk.
    fn decode_records(&mut self, chunk: &[u8], out: &mut Records) -> Result<Progress, DecodeError> {
        self.framing.decode(chunk, out, |out, start, payload| {
            out.span(start, payload);
            Ok(())
        })
    }
}
