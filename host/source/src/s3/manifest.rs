//! Parses manifests, which are objects that list other objects, in the two formats of Amazon
//! SageMaker: `ManifestFile` and `AugmentedManifestFile`.

use std::collections::HashMap;
use std::fmt::Display;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::address::Address;
use super::entry::{Entry, FoundObject, ListError, ObjectInfo, Piece};
use crate::SourceError;

/// Size limit of a manifest in bytes.
pub(super) const MAX_MANIFEST_BYTES: u64 = 1 << 30;
/// Size limit of a line of an augmented manifest in bytes.
const MAX_LINE_BYTES: usize = 16 << 20;
/// Ending of the names of attributes whose value is the address of an object.
const REFERENCE_SUFFIX: &str = "-ref";

/// An element of a manifest.
#[derive(Deserialize)]
#[serde(untagged)]
enum Element {
    Prefix { prefix: String },
    Suffix(String),
}

/// The addresses in a manifest: `[{"prefix": "s3://bucket/path/"}, "rest-of-key", …]`. The whole
/// manifest is checked first; each address is made on demand, because all addresses together would
/// need many times the memory of the text.
pub(super) fn objects<'a>(
    text: &'a [u8],
    manifest: &'a Address,
) -> Result<impl Iterator<Item = Result<Address, SourceError>> + 'a, SourceError> {
    Addresses::new(text, manifest).try_for_each(|address| address.map(drop))?;
    Ok(Addresses::new(text, manifest))
}

/// Parses a manifest, element by element.
struct Addresses<'a> {
    manifest: &'a Address,
    /// The text after the last element; `None` after the end or an error.
    rest: Option<&'a [u8]>,
    /// Number of the last element.
    number: u64,
    /// The first element.
    prefix: String,
}

impl<'a> Addresses<'a> {
    fn new(text: &'a [u8], manifest: &'a Address) -> Self {
        Self { manifest, rest: Some(text), number: 0, prefix: String::new() }
    }

    /// The next element; `None` after the last one.
    fn element(&mut self) -> Result<Option<Element>, String> {
        let Some(rest) = self.rest.take() else { return Ok(None) };
        let malformed = |why: &dyn Display| format!("is not a manifest: {why}");
        let rest = trim_json(rest);
        let rest = match (rest.split_first(), self.number) {
            (Some((b'[', rest)), 0) => match trim_json(rest) {
                [b']', end @ ..] => return at_end(end).map(|()| None),
                rest => rest,
            },
            (Some((b',', rest)), 1..) => rest,
            (Some((b']', end)), 1..) => return at_end(end).map(|()| None),
            (_, 0) => return Err(malformed(&"expected an array")),
            (_, number) => {
                return Err(malformed(&format!("expected `,` or `]` after element {number}")));
            }
        };
        self.number += 1;
        let mut values = serde_json::Deserializer::from_slice(rest).into_iter();
        let element = match values.next() {
            Some(Ok(element)) => element,
            Some(Err(why)) => {
                return Err(malformed(&format!("its element {}: {why}", self.number)));
            }
            None => return Err(malformed(&"it has no end")),
        };
        self.rest = Some(&rest[values.byte_offset()..]);
        Ok(Some(element))
    }

    /// The next address; `None` after the last one.
    fn address(&mut self) -> Result<Option<Address>, String> {
        if self.number == 0 {
            match self.element()? {
                Some(Element::Prefix { prefix }) => self.prefix = prefix,
                Some(Element::Suffix(first)) => {
                    return Err(format!("its first element is {first:?}, not a prefix"));
                }
                None => return Ok(None),
            }
        }
        let suffix = match self.element()? {
            Some(Element::Suffix(suffix)) => suffix,
            Some(Element::Prefix { .. }) => {
                return Err(format!("its element {} is a second prefix", self.number));
            }
            None => return Ok(None),
        };
        let text = format!("{}{suffix}", self.prefix);
        if text.ends_with('/') {
            return Err(format!("its element {}, {text:?}, is a prefix", self.number));
        }
        let address = text.parse();
        address.map(Some).map_err(|why| format!("its element {}, {text:?}: {why}", self.number))
    }
}

/// Checks the text after a manifest.
fn at_end(rest: &[u8]) -> Result<(), String> {
    match trim_json(rest) {
        [] => Ok(()),
        _ => Err("is not a manifest: there is more after its array".to_owned()),
    }
}

/// The text after its leading white space. JSON has fewer white space characters than ASCII: no
/// form feed.
fn trim_json(text: &[u8]) -> &[u8] {
    let blank = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
    &text[text.iter().take_while(blank).count()..]
}

impl Iterator for Addresses<'_> {
    type Item = Result<Address, SourceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let address = self.address().map_err(|message| {
            self.rest = None;
            let remedy = "a manifest is a JSON array: [{\"prefix\": \"s3://bucket/path/\"}, \
                          \"rest-of-key\", …]; it names objects, not prefixes";
            SourceError::new(self.manifest.to_string(), message, remedy)
        });
        address.transpose()
    }
}

/// The entries of an augmented manifest: for each line the values of these attributes, in their
/// order.
pub(super) fn lines<'a>(
    text: &'a Bytes,
    manifest: &'a Address,
    attributes: &'a [String],
) -> impl Iterator<Item = Result<Entry, ListError>> + 'a {
    let lines = text.split(|byte| *byte == b'\n').zip(1..);
    lines.filter(|(line, _)| !line.trim_ascii().is_empty()).map(move |(line, number)| {
        let pieces = checked(line).and_then(|()| pieces(line, attributes)).map_err(|message| {
            let remedy =
                "each line of an augmented manifest is a JSON object with all `attributes`";
            SourceError::new(format!("{manifest} line {number}"), message, remedy)
        })?;
        Ok(Entry::Line { number, pieces })
    })
}

/// Checks the length of a line, because a parsed line needs several times its memory.
fn checked(line: &[u8]) -> Result<(), String> {
    match line.len() {
        length if length > MAX_LINE_BYTES => {
            Err(format!("has {length} bytes; a line has at most {MAX_LINE_BYTES}"))
        }
        _ => Ok(()),
    }
}

fn pieces(line: &[u8], attributes: &[String]) -> Result<Vec<Piece>, String> {
    let values: HashMap<String, &RawValue> =
        serde_json::from_slice(line).map_err(|error| format!("is not a JSON object: {error}"))?;
    let piece = |name: &String| {
        let value = values.get(name.as_str()).ok_or_else(|| {
            let mut names: Vec<_> = values.keys().map(String::as_str).collect();
            names.sort_unstable();
            format!("has no attribute `{name}`; it has {}", names.join(", "))
        })?;
        let text = value_text(value);
        if !name.ends_with(REFERENCE_SUFFIX) {
            return Ok(Piece::Text(text.into()));
        }
        let address = text.parse().map_err(|why| format!("its `{name}` is {text:?}: {why}"))?;
        Ok(Piece::Object(FoundObject::new(address, ObjectInfo::Name)))
    };
    attributes.iter().map(piece).collect()
}

/// A value as text: the characters of a string, the JSON text of any other value.
fn value_text(value: &RawValue) -> String {
    serde_json::from_str::<String>(value.get()).unwrap_or_else(|_| value.get().to_owned())
}

/// The addresses in a manifest.
///
/// # Errors
/// The text is not a manifest.
#[doc(hidden)]
pub fn manifest(text: &[u8]) -> Result<Vec<Address>, SourceError> {
    let manifest = any_address();
    objects(text, &manifest)?.collect()
}

/// The values in each line of an augmented manifest, as text or as addresses.
///
/// # Errors
/// A line is not a JSON object with these attributes.
#[doc(hidden)]
pub fn augmented_manifest(
    text: Bytes,
    attributes: &[String],
) -> Result<Vec<Vec<Bytes>>, SourceError> {
    let manifest = any_address();
    let value = |piece: &Piece| match piece {
        Piece::Text(text) => text.clone(),
        Piece::Object(found) => found.address.to_string().into(),
    };
    let values = |entry| match entry {
        Ok(Entry::Line { pieces, .. }) => Some(Ok(pieces.iter().map(value).collect())),
        Err(ListError::Failed(error)) => Some(Err(error)),
        Ok(Entry::Object(_)) | Err(_) => None,
    };
    lines(&text, &manifest, attributes).filter_map(values).collect()
}

fn any_address() -> Address {
    Address { bucket: "bucket".into(), key: "manifest".to_owned(), version: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Address {
        "s3://b/m".parse().unwrap()
    }

    fn names(text: &[u8]) -> Vec<String> {
        let manifest = manifest();
        let addresses = objects(text, &manifest).unwrap();
        addresses.map(|address| address.unwrap().to_string()).collect()
    }

    #[test]
    fn addresses_are_the_prefix_and_each_suffix() {
        let text = br#"[{"prefix": "s3://data/a b/"}, "x/1", "+2", "//3"]"#;
        assert_eq!(names(text), ["s3://data/a b/x/1", "s3://data/a b/+2", "s3://data/a b///3"]);
        for empty in [&b"[]"[..], b" [ ] ", br#"[{"prefix": "s3://b/"}]"#] {
            assert_eq!(names(empty), [""; 0]);
        }
        assert_eq!(
            names(
                br#"[ {"prefix":"s3://b/"}  ,"x"
            ,"y" ] "#
            ),
            ["s3://b/x", "s3://b/y"]
        );
    }

    #[test]
    fn a_malformed_manifest_is_refused_with_its_element() {
        for (text, expected) in [
            (&br#"{"prefix": "s3://b/"}"#[..], "is not a manifest"),
            (br#"["a", "b"]"#, "first element is \"a\", not a prefix"),
            (br#"[{"prefix": "s3://b/"}, {"prefix": "s3://c/"}]"#, "element 2 is a second prefix"),
            (br#"[{"prefix": "b/"}, "a"]"#, "element 2, \"b/a\": it does not begin with s3://"),
            (br#"[{"prefix": "s3://b/"}, 1]"#, "is not a manifest"),
            (b"[", "is not a manifest"),
            (b"", "expected an array"),
            (br#"[{"prefix": "s3://b/"} "a"]"#, "expected `,` or `]` after element 1"),
            (br#"[{"prefix": "s3://b/"}, "a",]"#, "element 3"),
            (br#"[{"prefix": "s3://b/"}, "a"] x"#, "more after its array"),
            (br#"[{"prefix": "s3://b/"}, "a""#, "expected `,` or `]` after element 2"),
        ] {
            let manifest = manifest();
            let error = objects(text, &manifest).err().unwrap();
            assert!(error.message.contains(expected), "{error}");
        }
    }

    fn line(text: &str, attributes: &[&str]) -> Result<Vec<String>, String> {
        let attributes: Vec<_> = attributes.iter().map(|name| name.to_string()).collect();
        let show = |piece: Piece| match piece {
            Piece::Text(text) => String::from_utf8_lossy(&text).into_owned(),
            Piece::Object(found) => format!("object {}", found.address),
        };
        Ok(pieces(text.as_bytes(), &attributes)?.into_iter().map(show).collect())
    }

    #[test]
    fn attributes_have_the_requested_order() {
        let text = concat!(
            r#"{"source-ref": "s3://b/1.jpg", "class": 1, "#,
            r#""name": "a\nb", "box": {"x": [1, 2.50]}}"#
        );
        let values = line(text, &["class", "source-ref", "name", "box"]).unwrap();
        assert_eq!(values, ["1", "object s3://b/1.jpg", "a\nb", r#"{"x": [1, 2.50]}"#]);
    }

    #[test]
    fn a_malformed_line_is_refused_with_its_attribute() {
        assert!(
            line(r#"{"a": 1, "b": 2}"#, &["A"])
                .unwrap_err()
                .contains("no attribute `A`; it has a, b")
        );
        assert!(line(r#"{"a-ref": 1}"#, &["a-ref"]).unwrap_err().contains("`a-ref` is \"1\""));
        assert!(line("[1]", &["a"]).unwrap_err().contains("not a JSON object"));
    }

    #[test]
    fn a_line_that_is_too_long_is_refused_unread() {
        let text = Bytes::from([b"{\"a\": 1}\n".to_vec(), vec![b'x'; MAX_LINE_BYTES + 1]].concat());
        let (manifest, attributes) = (manifest(), ["a".to_owned()]);
        let mut lines = lines(&text, &manifest, &attributes);
        assert!(matches!(lines.next(), Some(Ok(Entry::Line { number: 1, .. }))));
        let Some(Err(ListError::Failed(error))) = lines.next() else { panic!("it was read") };
        assert!(error.message.contains("a line has at most 16777216"), "{error}");
    }
}
