//! The files of a new project: an example of this repository under another name, with everything
//! that is needed to build it elsewhere.

use std::path::PathBuf;

use super::language::Language;

/// The origin of the crate `pipemill-plugin` for a Rust project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sdk {
    /// A copy of its sources in the project. This binary contains them.
    Copy,
    /// A folder with its sources.
    Path(PathBuf),
    /// A version of it in the registry.
    Version(String),
}

/// A file of a project: its path relative to the project's folder, and its content.
pub type File = (String, Vec<u8>);

/// Embeds the files at these paths below `$root`, a folder of the repository.
macro_rules! files {
    ($root:literal: $($path:literal),* $(,)?) => {
        &[$((
            $path,
            include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../", $root, $path)),
        )),*]
    };
}
pub(super) use files;

/// The files of an example: their paths and contents.
pub(super) type Embedded = &'static [(&'static str, &'static [u8])];

const RUST: Embedded = files!["examples/decoder-rust/":
    ".cargo/config.toml", ".gitignore", "Cargo.lock", "Cargo.toml", "Makefile", "README.md",
    "data/greetings.jsonl", "data/greetings.pstr", "src/lib.rs", "tests/decoder.rs",
];
const C: Embedded = files!["examples/decoder-c/":
    ".gitignore", "Makefile", "README.md", "data/greetings.jsonl", "data/greetings.pstr",
    "metadata.toml", "src/decoder.c", "src/pipemill.c", "src/pipemill.h",
];
const CPP: Embedded = files!["examples/decoder-cpp/":
    ".gitignore", "Makefile", "README.md", "data/greetings.jsonl", "data/greetings.pstr",
    "src/decoder.cpp", "src/pipemill.c", "src/pipemill.h",
];
const ZIG: Embedded = files!["examples/decoder-zig/":
    ".gitignore", "Makefile", "README.md", "data/greetings.jsonl", "data/greetings.pstr",
    "src/decoder.zig", "src/pipemill.c", "src/pipemill.h", "src/pipemill.zig",
];
const GO: Embedded = files!["examples/decoder-go/":
    ".gitignore", "Makefile", "README.md", "data/greetings.jsonl", "data/greetings.pstr",
    "decoder.go", "go.mod", "pipemill/host.go", "pipemill/optional.go", "pipemill/pipemill.go",
    "pipemill/records.go",
];
const PYTHON: Embedded = files!["examples/decoder-python/":
    ".gitignore", "Makefile", "README.md", "data/greetings.jsonl", "data/greetings.pstr",
    "decoder.py", "metadata.toml", "vendor/pipemill_guest.py", "vendor/pipemill_plugin.py",
];
const SDK: Embedded = files!["plugins/sdk/":
    "src/bindings.rs",
    "src/columns.rs",
    "src/contract.rs",
    "src/field.rs",
    "src/guest.rs",
    "src/host.rs",
    "src/lib.rs",
    "src/map.rs",
    "src/options.rs",
    "src/plan.rs",
    "src/records.rs",
    "src/testing.rs",
    "src/testing/speed.rs",
];
const SDK_FOLDER: &str = "vendor/pipemill-plugin";
const SDK_MANIFEST: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../plugins/sdk/Cargo.toml"));
const WORKSPACE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml"));

/// The name of the decoder in the examples.
const EXAMPLE: &str = "pascal";
/// The dependency on the SDK in the manifest of the Rust example.
pub(super) const EXAMPLE_SDK: &str = "{ path = \"../../plugins/sdk\" }";
/// The relative path of the documentation in the examples.
pub(super) const EXAMPLE_DOCS: &str = "../../docs/";
/// The address that replaces it in a project's links to the documentation.
pub(super) const DOCS: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/");

/// The files of a new project for a decoder called `name`. `sdk` matters only for Rust.
pub fn template(language: Language, name: &str, sdk: &Sdk) -> Vec<File> {
    let embedded = match language {
        Language::Rust => RUST,
        Language::C => C,
        Language::Cpp => CPP,
        Language::Zig => ZIG,
        Language::Go => GO,
        Language::Python => PYTHON,
    };
    let renamed = |(path, bytes): &(&str, &[u8])| (path.to_string(), rename(bytes, name, sdk));
    let mut files: Vec<File> = embedded.iter().map(renamed).collect();
    if language == Language::Rust {
        match sdk {
            Sdk::Copy => files.extend(sdk_copy()),
            Sdk::Path(_) => {}
            // The lock file is for an SDK in a folder, not in the registry.
            Sdk::Version(_) => files.retain(|(path, _)| path != "Cargo.lock"),
        }
    }
    files
}

/// Replaces the example's name, its SDK and its links to the documentation.
fn rename(bytes: &[u8], name: &str, sdk: &Sdk) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(bytes) else { return bytes.to_vec() };
    let sdk = match sdk {
        Sdk::Copy => format!("{{ path = \"{SDK_FOLDER}\" }}"),
        // Writes it as a TOML string, with quotes and escapes.
        Sdk::Path(path) => format!("{{ path = {} }}", toml::Value::from(&*path.to_string_lossy())),
        Sdk::Version(version) => format!("\"{version}\""),
    };
    text.replace(&format!("{EXAMPLE}::"), &format!("{}::", name.replace('-', "_")))
        .replace(EXAMPLE, name)
        .replace(EXAMPLE_SDK, &sdk)
        .replace(EXAMPLE_DOCS, DOCS)
        .into_bytes()
}

/// The files of the SDK as a crate outside of a workspace.
fn sdk_copy() -> Vec<File> {
    let sources = SDK.iter().map(|(path, bytes)| (format!("{SDK_FOLDER}/{path}"), bytes.to_vec()));
    let mut files: Vec<File> = sources.collect();
    let manifest = plain_manifest(SDK_MANIFEST, WORKSPACE);
    files.push((format!("{SDK_FOLDER}/Cargo.toml"), manifest.into_bytes()));
    files
}

/// The manifest of a workspace member, with the values that it inherits from its workspace filled
/// in. Its lints are left out: they are for developers of the SDK.
fn plain_manifest(member: &str, workspace: &str) -> String {
    let parse = |text: &str| text.parse::<toml::Table>().expect("cargo has read it: see the tests");
    let (member, mut workspace) = (parse(member), parse(workspace));
    let inherited = workspace["workspace"].as_table_mut().expect("it is one");
    let sections = ["package", "dependencies", "target", "features"];
    let sections = sections.iter().filter_map(|section| {
        let mut content = member.get(*section)?.clone();
        let from = if *section == "target" { "dependencies" } else { section };
        inherit(&mut content, inherited.get(from));
        Some(toml::Table::from_iter([((*section).to_owned(), content)]).to_string())
    });
    let sections: Vec<_> = sections.collect();
    let about = "# A copy of pipemill's SDK, made by `pipemill plugin new`.\n\n";
    format!("{about}{}", sections.join("\n"))
}

/// Replaces each `key = { workspace = true, … }` in a table and its nested tables by the value of
/// the key in `inherited`, with the other keys of the member.
fn inherit(table: &mut toml::Value, inherited: Option<&toml::Value>) {
    let Some(table) = table.as_table_mut() else { return };
    for (key, value) in table.iter_mut() {
        let own = value.as_table_mut();
        if own.is_none_or(|own| own.remove("workspace").is_none()) {
            inherit(value, inherited);
            continue;
        }
        let own = value.as_table().cloned().unwrap_or_default();
        let mut whole = inherited.and_then(|all| all.get(key)).cloned();
        if let (Some(version @ toml::Value::String(_)), false) = (&mut whole, own.is_empty()) {
            *version = toml::Table::from_iter([("version".to_owned(), version.clone())]).into();
        }
        if let Some(whole) = whole.as_mut().and_then(toml::Value::as_table_mut) {
            whole.extend(own);
        }
        *value = whole.expect("cargo has read it: see the tests");
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    fn text(files: &[File], path: &str) -> String {
        let (_, bytes) = files.iter().find(|(it, _)| it == path).expect(path);
        String::from_utf8(bytes.clone()).expect(path)
    }

    #[test]
    fn a_new_project_does_not_name_the_example() {
        for language in Language::value_variants() {
            for (path, bytes) in template(*language, "my-format", &Sdk::Copy) {
                let text = String::from_utf8_lossy(&bytes);
                assert!(!text.contains(EXAMPLE), "{path}");
                assert!(!text.contains("../../docs") && !text.contains("../../plugins"), "{path}");
            }
        }
    }

    #[test]
    fn a_new_rust_project_depends_on_the_chosen_sdk() {
        let dependency = |sdk: &Sdk| {
            let manifest = text(&template(Language::Rust, "mine", sdk), "Cargo.toml");
            let table: toml::Table = manifest.parse().expect("TOML");
            table["dependencies"]["pipemill-plugin"].clone()
        };
        assert_eq!(dependency(&Sdk::Copy)["path"].as_str(), Some(SDK_FOLDER));
        let path = Sdk::Path("/a \"b\"".into());
        assert_eq!(dependency(&path)["path"].as_str(), Some("/a \"b\""));
        assert_eq!(dependency(&Sdk::Version("0.1".into())).as_str(), Some("0.1"));
    }

    #[test]
    fn the_copied_sdk_inherits_nothing_from_a_workspace() {
        let files = template(Language::Rust, "mine", &Sdk::Copy);
        let manifest = text(&files, "vendor/pipemill-plugin/Cargo.toml");
        assert!(!manifest.contains("workspace"), "{manifest}");
        let table: toml::Table = manifest.parse().expect("TOML");
        assert_eq!(table["package"]["version"].as_str(), Some(env!("CARGO_PKG_VERSION")));
        assert!(table["dependencies"]["wit-bindgen"]["version"].is_str(), "{manifest}");
        // Its features exist, with the libraries that they need.
        let target = table["target"].as_table().expect("a table");
        let allocator = &target["cfg(target_arch = \"wasm32\")"]["dependencies"]["dlmalloc"];
        assert!(allocator["version"].is_str(), "{manifest}");
        assert_eq!(allocator["optional"].as_bool(), Some(true), "{manifest}");
        assert_eq!(table["features"]["default"][0].as_str(), Some("allocator"), "{manifest}");
        // All of its modules exist.
        let lib = text(&files, "vendor/pipemill-plugin/src/lib.rs");
        for module in lib.lines().filter_map(|line| line.strip_suffix(';')) {
            if let Some(name) = module.strip_prefix("mod ").or(module.strip_prefix("pub mod ")) {
                text(&files, &format!("vendor/pipemill-plugin/src/{name}.rs"));
            }
        }
        assert!(lib.contains("macro_rules! export"), "{lib}");
    }
}
