//! The description that a plugin's file has of itself: the name of its package, its version,
//! authors and licence. They are custom sections with the names that component tools know; `plugin
//! inspect` shows them.

use std::path::Path;

use serde_json::Value;

use super::compiler::{compiler, query};
use super::language::Language;

/// The keys of a package in cargo's metadata, and the custom sections for their values.
const KEYS: [(&str, &str); 6] = [
    ("version", "version"),
    ("authors", "authors"),
    ("license", "licenses"),
    ("description", "description"),
    ("homepage", "homepage"),
    ("repository", "source"),
];

/// Adds the known facts of the project in `folder` to a component. If no compiler reports more,
/// that is the name of the folder.
pub(super) fn add(component: &mut Vec<u8>, folder: &Path, language: Language) {
    let package = if language == Language::Rust { package(folder) } else { Value::Null };
    let of_folder = || folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = package["name"].as_str().map_or_else(of_folder, str::to_owned);
    // The name of a component is the first part of a section with names.
    let name = with_length(name.as_bytes());
    append_section(component, "component-name", &[&[0u8][..], &with_length(&name)].concat());
    for (key, section) in KEYS {
        let text = match &package[key] {
            Value::Array(words) => {
                words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
            }
            value => value.as_str().unwrap_or_default().to_owned(),
        };
        if !text.is_empty() {
            append_section(component, section, text.as_bytes());
        }
    }
}

/// The package of the project in cargo's metadata; null if cargo can't report it.
fn package(folder: &Path) -> Value {
    let mut cargo = compiler("cargo", folder);
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let told = query(&mut cargo, "").ok().flatten().unwrap_or_default();
    let told: Value = serde_json::from_str(&told).unwrap_or_default();
    let manifest = folder.join("Cargo.toml");
    let is_own =
        |package: &&Value| package["manifest_path"].as_str().map(Path::new) == Some(&manifest);
    let packages = told["packages"].as_array().into_iter().flatten();
    packages.clone().find(is_own).or(packages.clone().next()).cloned().unwrap_or_default()
}

/// Appends a custom section.
pub(crate) fn append_section(component: &mut Vec<u8>, name: &str, content: &[u8]) {
    component.push(0);
    component.extend(with_length(&[&with_length(name.as_bytes())[..], content].concat()));
}

/// The bytes with their length before them, in LEB128.
pub(crate) fn with_length(bytes: &[u8]) -> Vec<u8> {
    let (mut all, mut left) = (Vec::new(), bytes.len());
    while left >= 0x80 {
        all.push(left as u8 | 0x80);
        left >>= 7;
    }
    all.push(left as u8);
    all.extend(bytes);
    all
}

#[cfg(test)]
mod tests {
    use super::with_length;

    #[test]
    fn a_length_is_in_leb128() {
        assert_eq!(with_length(b"ab"), b"\x02ab");
        assert_eq!(with_length(&[7; 300])[..3], [0xac, 0x02, 7]);
    }
}
