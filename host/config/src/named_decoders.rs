//! The decoders that a configuration names, even if it has other faults: unknown decoders are
//! reported together with them.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::channel::is_channel_name;
use super::document::{Document, Purpose};
use super::fault::TextPosition;
use super::keys::{CHANNEL, DECODER, NAME};
use super::model::DecoderRef;
use super::presets::Presets;

/// A decoder that a channel names.
#[derive(Debug, PartialEq, Eq)]
pub struct NamedDecoder {
    /// The channel's name, if it is valid.
    pub channel: Option<String>,
    /// The decoder's name.
    pub name: String,
    /// Its place in the file.
    pub place: TextPosition,
}

/// The decoders that the channels of this text name. Paths of plugins, and texts with variables,
/// are left out, and so is all of a text that is not TOML.
pub fn named_decoders(text: &str) -> Vec<NamedDecoder> {
    let Ok(root) = DeTable::parse(text) else { return Vec::new() };
    let (presets, no_variable) = (Presets::default(), |_: &str| None);
    let doc = Document::new(text, "", &no_variable, Purpose::Run, &presets);
    let Some(DeValue::Array(channels)) = root.get_ref().get(CHANNEL.name).map(Spanned::get_ref)
    else {
        return Vec::new();
    };
    let named = |channel: &Spanned<DeValue>| {
        let DeValue::Table(channel) = channel.get_ref() else { return None };
        let decoder = channel.get(DECODER.name)?;
        let name = string(decoder).filter(|name| !name.contains('$'))?;
        let DecoderRef::Name(name) = DecoderRef::of(name) else { return None };
        let channel = channel.get(NAME.name).and_then(string).filter(|name| is_channel_name(name));
        let place = doc.place(decoder.span().start);
        Some(NamedDecoder { channel: channel.map(str::to_owned), name, place })
    };
    channels.iter().filter_map(named).collect()
}

fn string<'a>(value: &'a Spanned<DeValue<'_>>) -> Option<&'a str> {
    match value.get_ref() {
        DeValue::String(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_whatever_else_is_wrong() {
        let text = "x = 1\n[[channel]]\nname = \"a\"\ndecoder = \"cvs\"\nslots = true\n\
                    [[channel]]\nname = \"b c\"\ndecoder = \"lines\"\n\
                    [[channel]]\ndecoder = \"./x.wasm\"\n[[channel]]\ndecoder = \"$X\"\n\
                    [[channel]]\ndecoder = 3\n";
        let named = |channel: Option<&str>, name: &str, line| NamedDecoder {
            channel: channel.map(str::to_owned),
            name: name.to_owned(),
            place: TextPosition { line, column: 11 },
        };
        assert_eq!(named_decoders(text), [named(Some("a"), "cvs", 4), named(None, "lines", 8)]);
        for text in ["", "channel = 1", "channel = [1]", "[[channel]", "[channel]\ndecoder = \"x\""]
        {
            assert_eq!(named_decoders(text), []);
        }
    }
}
