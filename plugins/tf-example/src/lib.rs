//! `tf.train.Example`s in TFRecord files: the features that the operator names become fields, each
//! with its type and shape. `SequenceExample`s are read, too: their feature lists become arrays.
//! The framing and the wire format are in `pipemill_parsing`.

mod describe;
mod features;
mod sequence;
mod settings;
mod values;

use features::Features;
use pipemill_parsing::framing::tfrecord::Framing;
use pipemill_parsing::head::Head;
use pipemill_plugin::{
    DecodeError, Decoder, Field, OptionSpec, Options, Progress, Records, Resync, StreamInfo,
};

/// Number of records that one call of the host checks. A larger number would be slow for a file
/// with many bad records, because after each error a batch is checked again. With a smaller one the
/// calls would cost too much.
const BATCH: usize = 128;

/// The `tf-example` decoder.
#[derive(Debug)]
pub struct TfExample {
    head: Head,
    framing: Framing,
    features: Features,
}

#[cfg(feature = "export")]
pipemill_plugin::export!(TfExample);

impl Decoder for TfExample {
    fn options() -> Vec<OptionSpec> {
        let features = OptionSpec::string(
            "features",
            None,
            "the features to read and as what, as in \"image:bytes, label:int64, w:float32[10]?\"",
        );
        vec![features, Framing::option()]
    }

    fn open(options: &Options, info: &StreamInfo) -> Result<Self, String> {
        let wanted = settings::features(options)?;
        let (framing, features) = (Framing::open(options, info, BATCH), Features::new(wanted));
        Ok(Self { head: Head::new(info), framing, features })
    }

    fn schema(&self) -> Option<Vec<Field>> {
        Some(self.features.fields())
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

impl TfExample {
    /// Emits the records that are completely in the chunk.
    fn decode_records(&mut self, chunk: &[u8], out: &mut Records) -> Result<Progress, DecodeError> {
        let Self { framing, features, .. } = self;
        framing.decode(chunk, out, |out, start, payload| features.emit(chunk, start, payload, out))
    }
}
