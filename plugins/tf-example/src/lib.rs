//! `tf.train.Example`s in TFRecord files: the features that the operator names become fields, each
//! with its type and shape. The framing and the wire format are in `pipemill_parsing`.

mod describe;
mod features;
mod settings;

use features::Features;
use pipemill_parsing::framing::tfrecord::Framing;
use pipemill_plugin::{
    DecodeError, Decoder, Field, OptionSpec, Options, Progress, Records, Resync, StreamInfo,
};

/// Records that one call of the host checks. More would be slow for a file with many bad records,
/// because after each error a batch is checked again. Fewer would make the calls cost too much.
const BATCH: usize = 128;

/// The `tf-example` decoder.
#[derive(Debug)]
pub struct TfExample {
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
        Ok(Self { framing: Framing::open(options, info, BATCH), features: Features::new(wanted) })
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
        _end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        let Self { framing, features } = self;
        framing.decode(chunk, out, |out, start, payload| features.emit(chunk, start, payload, out))
    }

    fn resync(&mut self, chunk: &[u8], end: bool) -> Resync {
        self.framing.resync(chunk, end)
    }
}
