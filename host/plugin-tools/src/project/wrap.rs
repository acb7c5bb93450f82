//! The files of a new project in Rust that wraps a built-in decoder.

use std::path::Path;

use super::template::{DOCS, EXAMPLE_DOCS, EXAMPLE_SDK, Embedded, File, Sdk, files};

const FILES: Embedded = files!["examples/decoder-rust-wrap/":
    ".cargo/config.toml", ".gitignore", "Cargo.toml", "Makefile", "README.md",
    "data/greetings.bin", "src/lib.rs", "tests/decoder.rs",
];
/// The name of the decoder in the example.
const EXAMPLE: &str = "with-size";
/// The decoder that the example wraps, its type, and the dependency on it.
const EXAMPLE_WRAPS: &str = "length-prefixed";
const EXAMPLE_TYPE: &str = "LengthPrefixed";
const EXAMPLE_DEPENDENCY: &str = "{ path = \"../../plugins/length-prefixed\" }";

/// The built-in decoders, each with its type.
const TYPES: [(&str, &str); 21] = [
    ("array-record", "ArrayRecord"),
    ("arrow", "Arrow"),
    ("augmented-manifest", "AugmentedManifest"),
    ("avro", "Avro"),
    ("csv", "Csv"),
    ("fixed", "Fixed"),
    ("jsonl", "Jsonl"),
    ("length-prefixed", "LengthPrefixed"),
    ("lines", "Lines"),
    ("mds", "Mds"),
    ("megatron", "Megatron"),
    ("msgpack", "Msgpack"),
    ("npy", "Npy"),
    ("npz", "Npz"),
    ("parquet", "Parquet"),
    ("recordio", "RecordIo"),
    ("recordio-protobuf", "RecordIoProtobuf"),
    ("tf-example", "TfExample"),
    ("tfrecord", "TfRecord"),
    ("tokens", "Tokens"),
    ("webdataset", "WebDataset"),
];

/// The files of a new project for a decoder called `name` that wraps the decoder `wrapped`. The
/// project has test data and native tests only if it wraps the same decoder as the example: they
/// are in that format.
///
/// # Errors There is no such decoder, or `sdk` is a folder without it next to it.
pub fn wrapping(name: &str, wrapped: &str, sdk: &Sdk) -> Result<Vec<File>, String> {
    let Some((_, wrapped_type)) = TYPES.iter().find(|(known, _)| *known == wrapped) else {
        let known: Vec<_> = TYPES.iter().map(|(known, _)| *known).collect();
        let known = known.join(", ");
        return Err(format!("--wrap: there is no built-in decoder `{wrapped}`; there are {known}"));
    };
    let [sdk, decoder] = dependencies(wrapped, sdk)?;
    let rename = |text: &str| {
        text.replace(EXAMPLE_DEPENDENCY, &decoder)
            .replace(EXAMPLE_SDK, &sdk)
            .replace(EXAMPLE_DOCS, DOCS)
            .replace(EXAMPLE, name)
            .replace(&crate_name(EXAMPLE), &crate_name(name))
            .replace(EXAMPLE_TYPE, wrapped_type)
            .replace(EXAMPLE_WRAPS, wrapped)
            .replace(&crate_name(EXAMPLE_WRAPS), &crate_name(wrapped))
    };
    let is_kept = |path: &str| {
        wrapped == EXAMPLE_WRAPS || !(path.starts_with("data/") || path.starts_with("tests/"))
    };
    let files = FILES.iter().filter(|(path, _)| is_kept(path));
    Ok(files
        .map(|(path, bytes)| match std::str::from_utf8(bytes) {
            Ok(text) if !path.starts_with("data/") => (path.to_string(), rename(text).into_bytes()),
            _ => (path.to_string(), bytes.to_vec()),
        })
        .collect())
}

/// The dependencies on the SDK and on the decoder, as a manifest has them. Both come from the same
/// origin.
fn dependencies(wrapped: &str, sdk: &Sdk) -> Result<[String; 2], String> {
    // Writes it as a TOML string, with quotes and escapes.
    let at = |path: &Path| format!("{{ path = {} }}", toml::Value::from(&*path.to_string_lossy()));
    match sdk {
        Sdk::Copy => {
            let git = format!("{{ git = \"{}\" }}", env!("CARGO_PKG_REPOSITORY"));
            Ok([git.clone(), git])
        }
        Sdk::Version(version) => Ok([format!("\"{version}\""), format!("\"{version}\"")]),
        Sdk::Path(path) => {
            let decoder = path.with_file_name(wrapped);
            if !decoder.join("Cargo.toml").is_file() {
                return Err(format!(
                    "--wrap: expected the crate of `{wrapped}` in {}, next to the SDK: give the \
                     folder `plugins/sdk` of pipemill's sources as --sdk",
                    decoder.display()
                ));
            }
            Ok([at(path), at(&decoder)])
        }
    }
}

/// A crate's name in Rust.
fn crate_name(name: &str) -> String {
    name.replace('-', "_")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    fn plugins() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins")
    }

    #[test]
    fn each_decoder_exports_its_type() {
        for (name, type_name) in TYPES {
            let source = plugins().join(name).join("src/lib.rs");
            let source = fs::read_to_string(&source).expect("the sources of each decoder");
            assert!(source.contains(&format!("export!({type_name});")), "{name}");
        }
        let exports = |folder: &fs::DirEntry| {
            fs::read_to_string(folder.path().join("src/lib.rs")).is_ok_and(|text| {
                text.contains("#[cfg(feature = \"export\")]\npipemill_plugin::export!")
            })
        };
        let folders = fs::read_dir(plugins()).expect("a folder").map(|folder| folder.expect("one"));
        assert_eq!(folders.filter(exports).count(), TYPES.len());
    }

    #[test]
    fn a_project_names_only_what_it_wraps() {
        for (name, type_name) in TYPES {
            let files = wrapping("my-format", name, &Sdk::Path(plugins().join("sdk"))).expect(name);
            let all: String =
                files.iter().map(|(_, bytes)| String::from_utf8_lossy(bytes)).collect();
            assert!(!all.contains(EXAMPLE) && !all.contains("../../docs"), "{all}");
            assert_eq!(all.contains(EXAMPLE_WRAPS), name == EXAMPLE_WRAPS, "{all}");
            let import = format!("use pipemill_{}::{type_name};", crate_name(name));
            assert!(all.contains(&import) && all.contains(&format!("pipemill-{name} = ")), "{all}");
        }
    }
}
