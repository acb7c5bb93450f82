//! A pipemill decoder for tar archives of JPEG images, as webdataset writes them. Each sample becomes
//! an image of one size, `uint8[size,size,3]`, and its other fields.
//!
//! The built-in `webdataset` finds the samples: see [`samples`]. [`picture`] decodes an image, and
//! [`resize`] makes the array from it.

mod baseline;
mod colors;
mod lanes;
mod library;
mod picture;
mod plane;
mod resize;
mod samples;

use pipemill_plugin::{
    DecodeError, Decoder, Field, Map, OptionSpec, Options, Progress, Records, Resync, StreamInfo,
};
use samples::Samples;

/// Largest size in bytes of the arrays that a call of `decode` makes, unless one sample has more.
/// It is far below the smallest `limits.output` that pipemill chooses as a default.
const MAX_CALL_OUTPUT: u64 = 64 << 20;
/// Smallest size in bytes of a sample in an archive: a header and a block of data.
const MIN_SAMPLE: u64 = 1024;

/// The decoder. It passes the archive to `webdataset` in windows, because a chunk of tiny images
/// can hold more arrays than a call may produce.
pub struct Jpeg {
    inner: Map<Samples>,
    /// Size of a window in bytes.
    window: usize,
}

pipemill_plugin::export!(Jpeg);

impl Decoder for Jpeg {
    fn options() -> Vec<OptionSpec> {
        vec![
            OptionSpec::string(
                "fields",
                Some("image=jpg;jpeg,cls:int64"),
                "the members of a sample to emit, as for `webdataset`; the one named `image` is the JPEG",
            ),
            OptionSpec::bool("key", false, "emit the sample's key as the field `__key__`"),
            OptionSpec::int(
                "size",
                Some("224"),
                "height and width of an image: its shorter side is resized to it, and its centre is cut out",
            ),
            OptionSpec::bool(
                "draft",
                false,
                "decode at 1/2, 1/4 or 1/8 of the size where that is still large enough: faster, and a \
                 little different",
            ),
            OptionSpec::int(
                "max_pixels",
                Some("33554432"),
                "largest image, in pixels; larger ones are bad samples",
            ),
        ]
    }

    fn open(options: &Options, info: &StreamInfo) -> Result<Self, String> {
        // The messages name the key of a sample, so it is always requested.
        let given = ["fields", "size", "draft", "max_pixels"]
            .map(|name| (name.to_owned(), options.text(name).to_owned()));
        let key = [("key", "true"), (samples::EMIT_KEY, options.text("key"))]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let inner = Options::new(&Map::<Samples>::options(), &[&given[..], &key].concat())?;
        let inner = Map::open(&inner, info)?;
        let size = options.int("size").unwrap_or_default();
        let samples = MAX_CALL_OUTPUT / (3 * size * size);
        let window = (samples * MIN_SAMPLE).clamp(4 << 10, 512 << 10) as usize;
        Ok(Self { inner, window })
    }

    fn schema(&self) -> Option<Vec<Field>> {
        self.inner.schema()
    }

    fn restart(&self) -> Option<u64> {
        self.inner.restart()
    }

    fn decode(
        &mut self,
        chunk: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        let mut shown = self.window;
        while shown < chunk.len() {
            let progress = self.inner.decode(&chunk[..shown], false, out)?;
            if progress.consumed > 0 {
                return Ok(Progress::more(progress.consumed));
            }
            shown = progress.need.max(2 * shown);
        }
        self.inner.decode(chunk, end, out)
    }

    fn resync(&mut self, chunk: &[u8], end: bool) -> Resync {
        self.inner.resync(chunk, end)
    }
}
