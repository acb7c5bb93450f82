//! Finds the decoder of a source if the command line names none: for `cat`, `schema` and `init`.

use std::process::ExitCode;

use pipemill_decode::{Engine, Plugin, ReadyPlugin};
use pipemill_source::Source;
use pipemill_types::Printable;

use super::{exit, load, s3};
use pipemill_detect::{self as detect, DetectError};
use pipemill_telemetry::progress::is_watched;

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
    let rules = detect::plugin_rules(engine);
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
