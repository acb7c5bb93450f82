//! Finds the decoder of a source: the one that the command line names, one that comes with the
//! data, or one that fits the first object. For `cat`, `index`, `schema` and `init`.

use std::ffi::OsString;
use std::process::ExitCode;

use pipemill_decode::{Digest, Engine, Plugin, ReadyPlugin};
use pipemill_lock::{Trust, decoder_of_data, detection_rules};
use pipemill_source::s3::{Selection, Settings};
use pipemill_source::{Source, decoder_places};
use pipemill_types::Printable;

use super::{exit, load, ready, s3};
use pipemill_detect::{self as detect, DetectError};
use pipemill_telemetry::progress::is_watched;

/// The plugins that may come with the data.
#[derive(clap::Args, Clone)]
pub(super) struct TrustArgs {
    /// Use the decoder with this SHA-256 if the data bring it: a file `decoder.toml` beside them
    /// names it
    #[arg(long, value_name = "sha256:HEX", value_parser = trusted)]
    trust: Vec<Digest>,
}

fn trusted(text: &str) -> Result<Digest, String> {
    Digest::of_identity(text)
        .map_err(|found| format!("expected `sha256:` and 64 hexadecimal digits, found {found}"))
}

/// The decoder of these sources that is known before one of them is read.
pub(super) struct KnownDecoder {
    pub(super) ready: ReadyPlugin,
    /// It came with the data; otherwise the command line names it.
    pub(super) with_data: Option<WithData>,
}

/// Where a decoder came from that came with the data.
pub(super) struct WithData {
    /// The path or address of the file that names it.
    pub(super) file: String,
    /// Where the file says that the plugin lies.
    pub(super) address: String,
}

/// The decoder that the command line names, or one that comes with the data and is trusted. `None`
/// if it has to be found by the objects. It is known before a source is opened, so that a mistake
/// in its options is reported first. An error is reported; the exit code is returned.
pub(super) fn known_decoder(
    engine: &Engine,
    decoder: Option<&str>,
    options: &[(String, String)],
    sources: &[OsString],
    (reach, trust): (&s3::S3Args, &TrustArgs),
) -> Result<Option<KnownDecoder>, ExitCode> {
    if let Some(name) = decoder {
        let ready = load(engine, name, options, exit::USAGE)?;
        return Ok(Some(KnownDecoder { ready, with_data: None }));
    }
    let mut places: Vec<_> = sources.iter().filter_map(|name| decoder_places(name)).collect();
    places.dedup();
    let anything = Selection::Objects(Vec::new());
    let settings = Settings { access: reach.access(), ..Settings::new(anything) };
    let trust = Trust { digests: &trust.trust, config: None };
    let found = decoder_of_data(engine, trust, &settings, &places)
        .map_err(|why| exit::because(exit::DATA, s3::with_option_names(&why)))?;
    let Some(found) = found else { return Ok(None) };
    let options = found.options(options);
    let with_data = Some(WithData { file: found.file, address: found.address });
    let ready = ready(found.plugin, &options)?;
    Ok(Some(KnownDecoder { ready, with_data }))
}

/// A source with a decoder for it.
pub(super) struct DecodedSource {
    pub(super) plugin: Plugin,
    /// The decoder's options, as its streams get them.
    pub(super) options: Vec<(String, String)>,
    pub(super) source: Box<dyn Source>,
}

impl DecodedSource {
    pub(super) fn new(ready: ReadyPlugin, source: Box<dyn Source>) -> Self {
        let ReadyPlugin { plugin, options, .. } = ready;
        Self { plugin, options, source }
    }
}

/// Finds the decoder of a source, logs it, and loads it. Nothing of the source is lost. An error is
/// reported; the exit code is returned.
pub(super) fn find_decoder(
    engine: &Engine,
    mut source: Box<dyn Source>,
    given: &[(String, String)],
    inflate: bool,
) -> Result<DecodedSource, ExitCode> {
    if is_watched() {
        // This must happen before the first object is taken: otherwise the bytes of the epoch are
        // not counted.
        source.total_size();
    }
    let rules = detection_rules(engine, None);
    let (choice, source) =
        detect::detect(source, rules, inflate, given).map_err(|error| match error {
            DetectError::Stopped => ExitCode::SUCCESS,
            DetectError::Source(error) => {
                let code = if error.missing { exit::MISSING } else { exit::DATA };
                exit::because(code, s3::with_option_names(&error.in_full()))
            }
        })?;
    let object = Printable::name(&choice.object);
    log::info!("{object}: {}", choice.explanation(given));
    let ready = load(engine, choice.decoder(), &choice.options(given), exit::USAGE)?;
    Ok(DecodedSource::new(ready, source))
}
