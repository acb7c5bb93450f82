//! The description that a plugin's file has of itself: the name of its package, its version,
//! authors and licence. A crate says them in its Cargo.toml, other projects in a file
//! `metadata.toml`. They are custom sections with the names that component tools know; `plugin
//! inspect` shows them.

use std::io;
use std::path::Path;

use serde_json::Value;

use super::build_error::BuildError;
use super::compiler::{compiler, query};
use super::language::Language;

/// The file in which projects that are no crates say the facts.
const FILE: &str = "metadata.toml";

/// The keys of a package in cargo's metadata, and the custom sections for their values.
const KEYS: [(&str, &str); 6] = [
    ("version", "version"),
    ("authors", "authors"),
    ("license", "licenses"),
    ("description", "description"),
    ("homepage", "homepage"),
    ("repository", "source"),
];

/// Adds the known facts of the project in `folder` to a component. If nothing says more, that is
/// the name of the folder.
///
/// # Errors
/// The project's `metadata.toml` is wrong.
pub(super) fn add(
    component: &mut Vec<u8>,
    folder: &Path,
    language: Language,
) -> Result<(), BuildError> {
    let package = match language {
        Language::Rust => package(folder),
        _ => read(&folder.join(FILE)).map_err(BuildError::wrong)?,
    };
    // A relative folder may be `.`.
    let of_folder = || {
        let folder = std::path::absolute(folder).unwrap_or_default();
        folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
    };
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
    Ok(())
}

/// The facts in a `metadata.toml`, with the keys of a crate's; null if there is no such file.
fn read(file: &Path) -> Result<Value, String> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Value::Null),
        Err(error) => return Err(format!("{}: can't be read: {error}", file.display())),
    };
    parse(&text).map_err(|why| format!("{}: {why}", file.display()))
}

/// As [`read`], of the text of the file.
fn parse(text: &str) -> Result<Value, String> {
    let table: toml::Table = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |at| text[..at.start].matches('\n').count() + 1);
        format!("line {line}: {}", error.message())
    })?;
    let known = || std::iter::once("name").chain(KEYS.iter().map(|(key, _)| *key));
    let mut facts = serde_json::Map::new();
    for (key, value) in table {
        if !known().any(|name| name == key) {
            let known: Vec<_> = known().collect();
            return Err(format!("`{key}` is not known; known are {}", known.join(", ")));
        }
        let is_list = key == "authors";
        let text = |value: &toml::Value| value.as_str().map(Value::from);
        let value = match &value {
            toml::Value::Array(all) if is_list => all.iter().map(text).collect(),
            one => text(one),
        };
        let expected = if is_list { "a text or a list of texts" } else { "a text" };
        let value = value.ok_or_else(|| format!("`{key}`: expected {expected}"))?;
        facts.insert(key, value);
    }
    Ok(Value::Object(facts))
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
    use super::*;
    use crate::Metadata;

    #[test]
    fn a_length_is_in_leb128() {
        assert_eq!(with_length(b"ab"), b"\x02ab");
        assert_eq!(with_length(&[7; 300])[..3], [0xac, 0x02, 7]);
    }

    #[test]
    fn a_project_that_is_no_crate_says_its_facts_in_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let inspect = || {
            let mut component = b"\0asm\x0d\0\x01\0".to_vec();
            add(&mut component, folder.path(), Language::C).map(|()| Metadata::of(&component))
        };
        let name = folder.path().file_name().unwrap().to_str().unwrap().to_owned();
        let facts = inspect().unwrap();
        assert_eq!(facts.package, [("name", name)]);
        let write = |text: &str| std::fs::write(folder.path().join(FILE), text).unwrap();
        write(
            "name = 'mine'\nversion = '1.2.0'\nauthors = ['Ada', 'Grace']\nlicense = 'MIT'\n\
             description = 'what'\nhomepage = 'h'\nrepository = 'r'\n",
        );
        let facts = inspect().unwrap();
        let shown: Vec<_> =
            facts.package.iter().map(|(key, text)| format!("{key}={text}")).collect();
        assert_eq!(
            shown,
            [
                "name=mine",
                "version=1.2.0",
                "authors=Ada, Grace",
                "licence=MIT",
                "about=what",
                "homepage=h",
                "source=r",
            ]
        );
        for (text, why) in [
            ("name = ", "metadata.toml: line 1: "),
            ("name = 'a'\nlicence = 'MIT'", "`licence` is not known; known are name, version"),
            ("version = 1", "`version`: expected a text"),
            ("name = ['a']", "`name`: expected a text"),
            ("authors = [1]", "`authors`: expected a text or a list of texts"),
        ] {
            write(text);
            let found = inspect().unwrap_err().to_string();
            assert!(found.contains(why), "{text}: {found}");
        }
    }
}
