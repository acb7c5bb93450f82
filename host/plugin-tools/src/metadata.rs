//! The description that a plugin's file has of itself, in the custom sections that component tools
//! write: the name of its package, its version, authors, licence, and the tools that made it.
//!
//! Nobody vouches for it, and it may be hostile: texts are escaped and cut off, and lists too. A
//! section that can't be read is left out, and does not hide the others.

use pipemill_types::printable;
use wasmparser::{
    BinaryReader, ComponentName, CustomSectionReader, KnownCustom, Parser, Payload,
    ProducersSectionReader,
};

/// The sections with facts about a package, and the names under which they are shown.
const PACKAGE: [(&str, &str); 7] = [
    ("version", "version"),
    ("authors", "authors"),
    ("licenses", "licence"),
    ("description", "about"),
    ("homepage", "homepage"),
    ("source", "source"),
    ("revision", "revision"),
];
/// Bytes of a section that are looked at: more than [`printable`] keeps.
const MAX_TEXT_BYTES: usize = 8 << 10;
/// Number of tools that are kept.
const MAX_PRODUCERS: usize = 20;

/// The description that a plugin's file has of itself. Its texts can be printed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metadata {
    /// The facts about its package as keys and values: name, version, authors, licence.
    pub package: Vec<(&'static str, String)>,
    /// Name and version of the languages, compilers and tools that made it.
    pub producers: Vec<(String, String)>,
}

impl Metadata {
    /// The description in a plugin's file. A component's own facts come before those of the modules
    /// in it.
    pub fn of(file: &[u8]) -> Self {
        let (mut outer, mut inner) = (Self::default(), Self::default());
        // Number of modules and components around the current place.
        let mut depth = 0usize;
        for payload in Parser::new(0).parse_all(file).map_while(Result::ok) {
            match payload {
                Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
                Payload::End(_) => depth = depth.saturating_sub(1),
                Payload::CustomSection(section) => {
                    let of = if depth == 0 { &mut outer } else { &mut inner };
                    of.add_section(&section);
                }
                _ => {}
            }
        }
        for (key, text) in inner.package {
            outer.add(key, &text);
        }
        for pair in inner.producers {
            outer.add_producer(pair);
        }
        outer
    }

    /// The fact under which `inspect` shows `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        let fact = self.package.iter().find(|(known, _)| *known == key);
        fact.map(|(_, text)| text.as_str())
    }

    fn add_section(&mut self, section: &CustomSectionReader) {
        if section.name() == "producers" {
            let reader = BinaryReader::new(section.data(), section.data_offset());
            let Ok(fields) = ProducersSectionReader::new(reader) else { return };
            let fields = fields.into_iter().map_while(Result::ok);
            let values = fields.flat_map(|field| field.values.into_iter().map_while(Result::ok));
            for value in values {
                self.add_producer((printable(value.name), printable(value.version)));
            }
        } else if let Some((_, key)) = PACKAGE.iter().find(|(name, _)| *name == section.name()) {
            let data = section.data();
            let start = &data[..data.len().min(MAX_TEXT_BYTES)];
            self.add(key, &printable(&String::from_utf8_lossy(start)));
        } else if let KnownCustom::ComponentName(parts) = section.as_known() {
            for part in parts.into_iter().map_while(Result::ok) {
                if let ComponentName::Component { name, .. } = part {
                    self.add("name", &printable(name));
                }
            }
        }
    }

    /// Adds a fact, unless it is known.
    fn add(&mut self, key: &'static str, text: &str) {
        if !text.is_empty() && self.get(key).is_none() {
            self.package.push((key, text.to_owned()));
        }
    }

    fn add_producer(&mut self, pair: (String, String)) {
        if self.producers.len() < MAX_PRODUCERS && !self.producers.contains(&pair) {
            self.producers.push(pair);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::facts::{append_section, with_length};

    fn section(name: &str, content: &[u8]) -> Vec<u8> {
        let mut section = Vec::new();
        append_section(&mut section, name, content);
        section
    }

    #[test]
    fn hostile_metadata_is_escaped_and_cut_off() {
        let name = with_length("evil\u{1b}[2J\u{202e}".as_bytes());
        let mut producers = vec![1];
        producers.extend(with_length(b"language"));
        producers.extend([0x80, 0x7d]); // 16,000 values
        for number in 0..16_000 {
            producers.extend(with_length(format!("tool\n{number}").as_bytes()));
            producers.extend(with_length(b"\x1b[0m"));
        }
        let file = [
            &b"\0asm\x0d\0\x01\0"[..],
            &section("component-name", &[&[0u8][..], &with_length(&name)].concat()),
            &section("licenses", b"\xff\xfe"),
            &section("authors", "x\u{9b}".repeat(1 << 20).as_bytes()),
            &section("producers", &producers),
            &section("producers", b"\xff\xff\xff\xff"),
            &section("description", b"one\ntwo"),
            &section("description", b"another"),
        ]
        .concat();
        let metadata = Metadata::of(&file);
        assert_eq!(metadata.get("name"), Some("evil\\u{1b}[2J\\u{202e}"));
        assert_eq!(metadata.get("about"), Some("one two"));
        assert_eq!(metadata.producers.len(), MAX_PRODUCERS);
        assert_eq!(metadata.producers[1], ("tool 1".to_owned(), "\\u{1b}[0m".to_owned()));
        let authors = metadata.get("authors").expect("there are some");
        assert!(authors.len() < 1010 && authors.ends_with('…'), "{}", authors.len());
        for (_, text) in &metadata.package {
            assert!(!text.chars().any(char::is_control), "{text:?}");
        }
        // A file that ends too early gives what can be read of it.
        for end in (0..file.len()).step_by(1009) {
            let _ = Metadata::of(&file[..end]);
        }
    }

    #[test]
    fn the_facts_of_the_component_come_first() {
        let module = [&b"\0asm\x01\0\0\0"[..], &section("version", b"7")].concat();
        let module = [&module[..], &section("homepage", b"inner")].concat();
        let nested = [&[1u8][..], &with_length(&module)].concat();
        let file = [&b"\0asm\x0d\0\x01\0"[..], &nested, &section("version", b"8")].concat();
        let metadata = Metadata::of(&file);
        assert_eq!(metadata.get("version"), Some("8"));
        assert_eq!(metadata.get("homepage"), Some("inner"));
        assert_eq!(Metadata::of(&module).get("version"), Some("7"));
    }
}
