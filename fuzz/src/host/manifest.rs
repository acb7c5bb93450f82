//! Manifests in S3: the entries equal those of a plain reading of the JSON.

use pipemill_source::s3::{Address, augmented_manifest, manifest as read};
use serde_json::Value;

/// The attributes that an augmented manifest's lines must have.
const ATTRIBUTES: [&str; 2] = ["a-ref", "b"];

/// The first byte selects the kind of manifest.
pub(crate) fn manifest(bytes: &[u8]) {
    match bytes.split_first() {
        Some((kind, text)) if kind & 1 == 0 => of_prefixes(text),
        Some((_, text)) => of_lines(text),
        None => {}
    }
}

fn of_prefixes(text: &[u8]) {
    let Ok(addresses) = read(text) else { return };
    let value: Value = serde_json::from_slice(text).expect("it was read");
    let elements = value.as_array().expect("it was read").iter();
    let prefix = value.get(0).map_or("", |first| first["prefix"].as_str().expect("it was read"));
    let expected = elements.skip(1).map(|suffix| {
        let text = format!("{prefix}{}", suffix.as_str().expect("it was read"));
        text.parse::<Address>().expect("it was read")
    });
    assert_eq!(addresses, expected.collect::<Vec<_>>());
    for address in addresses {
        assert_eq!(address.to_string().parse().as_ref(), Ok(&address), "shown, then read");
    }
}

fn of_lines(text: &[u8]) {
    let attributes = ATTRIBUTES.map(str::to_owned);
    let Ok(lines) = augmented_manifest(text.to_vec().into(), &attributes) else { return };
    let texts = text.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    assert_eq!(texts.clone().count(), lines.len(), "lines");
    for (text, values) in texts.zip(lines) {
        assert_eq!(values.len(), ATTRIBUTES.len(), "values");
        // A number that no type of Rust can hold is valid JSON anyway.
        let Ok(value) = serde_json::from_slice::<Value>(text) else { continue };
        if let Value::String(expected) = &value[ATTRIBUTES[1]] {
            assert_eq!(expected.as_bytes(), values[1]);
        }
    }
}
