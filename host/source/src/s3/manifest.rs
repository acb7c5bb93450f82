//! Parses manifests, which are objects that list other objects, in the two formats of Amazon
//! SageMaker: `ManifestFile` and `AugmentedManifestFile`.

use std::collections::HashMap;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::address::Address;
use super::entry::{Entry, FoundObject, ListError, ObjectInfo, Piece};
use crate::SourceError;

/// Size limit of a manifest in bytes.
pub(super) const MAX_MANIFEST_BYTES: u64 = 1 << 30;
/// Ending of the names of attributes whose value is the address of an object.
const REFERENCE_SUFFIX: &str = "-ref";

/// An element of a manifest.
#[derive(Deserialize)]
#[serde(untagged)]
enum Element {
    Prefix { prefix: String },
    Suffix(String),
}

/// The addresses in a manifest: `[{"prefix": "s3://bucket/path/"}, "rest-of-key", …]`.
pub(super) fn objects(text: &[u8], manifest: &Address) -> Result<Vec<Address>, SourceError> {
    let wrong = |message: String| {
        let remedy = "a manifest is a JSON array: [{\"prefix\": \"s3://bucket/path/\"}, \
                      \"rest-of-key\", …]; it names objects, not prefixes";
        SourceError::new(manifest.to_string(), message, remedy)
    };
    let elements: Vec<Element> = serde_json::from_slice(text)
        .map_err(|error| wrong(format!("is not a manifest: {error}")))?;
    let mut elements = elements.into_iter();
    let prefix = match elements.next() {
        Some(Element::Prefix { prefix }) => prefix,
        Some(Element::Suffix(first)) => {
            return Err(wrong(format!("its first element is {first:?}, not a prefix")));
        }
        None => return Ok(Vec::new()),
    };
    let address = |(index, element): (usize, Element)| {
        let Element::Suffix(suffix) = element else {
            let message = format!("its element {} is a second prefix", index + 2);
            return Err(wrong(message));
        };
        let text = format!("{prefix}{suffix}");
        if text.ends_with('/') {
            let message = format!("its element {}, {text:?}, is a prefix", index + 2);
            return Err(wrong(message));
        }
        text.parse().map_err(|why| wrong(format!("its element {}, {text:?}: {why}", index + 2)))
    };
    elements.enumerate().map(address).collect()
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
        let pieces = pieces(line, attributes).map_err(|message| {
            let remedy =
                "each line of an augmented manifest is a JSON object with all `attributes`";
            SourceError::new(format!("{manifest} line {number}"), message, remedy)
        })?;
        Ok(Entry::Line { number, pieces })
    })
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
        Ok(Piece::Object(FoundObject { address, info: ObjectInfo::Name }))
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
#[cfg(feature = "unstable")]
pub fn manifest(text: &[u8]) -> Result<Vec<Address>, SourceError> {
    objects(text, &any_address())
}

/// The values in each line of an augmented manifest, as text or as addresses.
///
/// # Errors
/// A line is not a JSON object with these attributes.
#[cfg(feature = "unstable")]
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

#[cfg(feature = "unstable")]
fn any_address() -> Address {
    Address { bucket: "bucket".into(), key: "manifest".to_owned(), version: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Address {
        "s3://b/m".parse().unwrap()
    }

    #[test]
    fn addresses_are_the_prefix_and_each_suffix() {
        let text = br#"[{"prefix": "s3://data/a b/"}, "x/1", "+2", "//3"]"#;
        let names =
            objects(text, &manifest()).unwrap().iter().map(Address::to_string).collect::<Vec<_>>();
        assert_eq!(names, ["s3://data/a b/x/1", "s3://data/a b/+2", "s3://data/a b///3"]);
        assert!(objects(b"[]", &manifest()).unwrap().is_empty());
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
        ] {
            let error = objects(text, &manifest()).unwrap_err();
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
}
