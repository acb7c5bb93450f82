//! Derives a channel's source and decoder from the platform's description of the channel.

use std::path::Path;

use pipemill_source::{Pattern, ReadSettings};

use super::input_data_config::{InputChannel, InputMode};
use crate::{DecoderRef, Preset, Source, fifo_source};

/// The file in which SageMaker's own reader keeps the number of the next epoch. pipemill uses the
/// same file, so a restarted process continues with the right FIFO, whichever reader it has.
fn epoch_file(base: &Path, channel: &str) -> std::path::PathBuf {
    base.join(format!("pipe_state/.{channel}-pipe_mode-state"))
}

/// The channel's source and decoder.
pub(super) fn preset(base: &Path, name: &str, channel: &InputChannel) -> Preset {
    let data = base.join("input/data");
    let source = match channel.mode {
        InputMode::Pipe => fifo_source(data, Some(epoch_file(base, name))),
        InputMode::File | InputMode::FastFile => Source::Files {
            pattern: Pattern::Folder(data.join(name)),
            reading: ReadSettings::default(),
        },
    };
    Preset { source, decoder: decoder(channel).map(|name| DecoderRef::Name(name.to_owned())) }
}

/// The decoder for each MIME type.
const DECODERS: [(&str, &str); 12] = [
    ("application/x-recordio", "recordio"),
    ("application/x-recordio-protobuf", "recordio-protobuf"),
    ("application/x-tfrecord", "tfrecord"),
    ("application/x-tfexample", "tf-example"),
    ("application/x-webdataset", "webdataset"),
    ("application/x-tar", "webdataset"),
    ("application/jsonlines", "jsonl"),
    ("application/jsonl", "jsonl"),
    ("application/x-jsonlines", "jsonl"),
    ("application/x-ndjson", "jsonl"),
    ("text/csv", "csv"),
    ("text/plain", "lines"),
];

fn decoder(channel: &InputChannel) -> Result<&'static str, String> {
    // In Pipe mode the platform wraps each object, whatever its type; in the other modes it does
    // not.
    if channel.wrapped && channel.mode == InputMode::Pipe {
        return Ok("recordio");
    }
    let Some(content_type) = &channel.content_type else {
        return Err("the platform's file has no ContentType".to_owned());
    };
    let bare = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let known = DECODERS.iter().find(|(name, _)| *name == bare);
    known.map(|(_, decoder)| *decoder).ok_or_else(|| {
        let names: Vec<_> = DECODERS.iter().map(|(name, _)| *name).collect();
        format!(
            "no decoder goes with the ContentType {content_type:?}; known: {}",
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(mode: InputMode, content_type: Option<&str>, wrapped: bool) -> InputChannel {
        let content_type = content_type.map(str::to_owned);
        InputChannel { mode, content_type, wrapped, is_divided: false }
    }

    #[test]
    fn the_decoder_follows_from_mode_wrapper_and_content_type() {
        let decoder_of =
            |mode, content_type, wrapped| decoder(&channel(mode, content_type, wrapped));
        assert_eq!(decoder_of(InputMode::File, Some("text/csv; label_size=0"), false), Ok("csv"));
        assert_eq!(
            decoder_of(InputMode::Pipe, Some("Application/X-RecordIO-Protobuf"), false),
            Ok("recordio-protobuf")
        );
        assert_eq!(decoder_of(InputMode::Pipe, Some("image/jpeg"), true), Ok("recordio"));
        assert!(
            decoder_of(InputMode::File, Some("image/jpeg"), true)
                .unwrap_err()
                .contains("\"image/jpeg\"")
        );
        assert!(decoder_of(InputMode::Pipe, None, false).unwrap_err().contains("no ContentType"));
    }
}
