//! The content of a file `decoder.toml`, which lies beside data and names their decoder. Who can
//! write the data can write it, so nothing of it is believed: see `data_decoder`.

use pipemill_decode::Digest;
use pipemill_source::Location;
use pipemill_source::s3::Address;
use pipemill_types::printable;
use serde::Deserialize;

use crate::name::PluginName;
use crate::origin::Origin;

/// Largest size of the file in bytes.
pub(crate) const MAX_BYTES: u64 = 64 << 10;
/// Largest number of older plugins that one replaces.
const MAX_REPLACED: usize = 100;

/// The decoder that a file names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedByData {
    pub(crate) name: PluginName,
    /// The SHA-256 of the plugin's file.
    pub(crate) sha256: Digest,
    /// Where the plugin lies, as the file says it.
    pub(crate) address: String,
    /// Options that apply where the operator sets no other value, sorted by name.
    pub(crate) options: Vec<(String, String)>,
    /// The SHA-256 of older plugins that this one replaces, as the file says.
    pub(crate) replaces: Vec<Digest>,
}

/// The file as TOML.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DecoderFile {
    name: String,
    #[serde(default)]
    version: String,
    sha256: String,
    address: String,
    #[serde(default)]
    options: toml::Table,
    #[serde(default)]
    replaces: Vec<String>,
}

impl NamedByData {
    /// Parses the text of a file.
    ///
    /// # Errors
    /// It is not such a file. The error says where and what was expected.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let document: DecoderFile = toml::from_str(text).map_err(|error| {
            let line = error.span().map(|at| text[..at.start].matches('\n').count() + 1);
            let line = line.map_or(String::new(), |line| format!("line {line}: "));
            format!("{line}{}", printable(error.message()))
        })?;
        let name = PluginName::new(&document.name, &document.version)?;
        let digits = document.sha256.strip_prefix("sha256:").unwrap_or(&document.sha256);
        let sha256 = digits
            .parse()
            .map_err(|found| format!("`sha256`: expected 64 hexadecimal digits, found {found}"))?;
        if document.replaces.len() > MAX_REPLACED {
            return Err(format!("`replaces` names more than {MAX_REPLACED} plugins"));
        }
        let replaced = |text: &String| {
            let expected = "`replaces`: expected \"sha256:\" and 64 hexadecimal digits";
            Digest::of_identity(text).map_err(|found| format!("{expected}, found {found}"))
        };
        let replaces = document.replaces.iter().map(replaced).collect::<Result<_, _>>()?;
        let mut options = Vec::new();
        for (name, value) in document.options {
            let value = match value {
                toml::Value::String(text) => text,
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Boolean(flag) => flag.to_string(),
                other => {
                    return Err(format!(
                        "option `{}`: expected a string, a whole number, true or false, found {}",
                        printable(&name),
                        other.type_str()
                    ));
                }
            };
            options.push((name, value));
        }
        options.sort();
        Ok(Self { name, sha256, address: document.address, options, replaces })
    }

    /// Where the plugin lies, for a file that lies at `place`. A relative address begins there.
    ///
    /// # Errors
    /// The plugin can't be fetched from there while data are read. The error is a part of a
    /// sentence that follows the address.
    pub(crate) fn origin(&self, place: &Location) -> Result<Origin, String> {
        let (address, sha256) = (&self.address, self.sha256);
        let path = match Origin::of_name(address.as_ref())? {
            Origin::File(path) => path,
            origin @ Origin::S3(_) => return Ok(origin),
            origin @ (Origin::Web(_) | Origin::Registry(_)) => {
                return Err(format!(
                    "nothing of the web is fetched for data: add the plugin first, with `pipemill \
                     plugin add {origin} --sha256 {sha256}`"
                ));
            }
        };
        let toml = match place {
            Location::File(file) => return Ok(Origin::File(file.with_file_name("").join(path))),
            Location::S3(toml) => toml,
        };
        let is_plain = |part: &str| !matches!(part, "" | "." | "..");
        if !address.split('/').all(is_plain) {
            return Err(
                "data in S3 name a key below their own prefix, or an s3:// address, and no \
                        path of this machine"
                    .to_owned(),
            );
        }
        let folder = toml.key.rfind('/').map_or("", |slash| &toml.key[..=slash]);
        let key = format!("{folder}{address}");
        Ok(Origin::S3(Address { bucket: toml.bucket.clone(), key, version: None }))
    }

    /// Whether both mean the same plugin with the same options.
    pub(crate) fn agrees_with(&self, other: &Self) -> bool {
        (self.sha256, &self.options) == (other.sha256, &other.options)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DIGEST: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn file(more: &str) -> String {
        format!("name = \"mine\"\nsha256 = \"{DIGEST}\"\naddress = \"mine.wasm\"\n{more}")
    }

    #[test]
    fn a_file_says_what_it_names() {
        let more = format!(
            "version = \"1.2\"\nreplaces = [\"sha256:{DIGEST}\"]\n\
             [options]\ntext = true\nsize = 7\nfields = \"a,b\"\n"
        );
        let named = NamedByData::parse(&file(&more)).unwrap();
        assert_eq!(
            (named.name.to_string(), named.sha256.to_string().as_str()),
            ("mine@1.2".to_owned(), DIGEST)
        );
        let text = |pairs: &[(&str, &str)]| -> Vec<_> {
            pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
        };
        assert_eq!(named.options, text(&[("fields", "a,b"), ("size", "7"), ("text", "true")]));
        assert_eq!(named.replaces, [named.sha256]);
        let with_prefix = file("").replace(DIGEST, &format!("sha256:{DIGEST}"));
        assert_eq!(NamedByData::parse(&with_prefix).unwrap().sha256, named.sha256);
    }

    #[test]
    fn what_is_no_such_file_is_refused_with_its_place() {
        for (text, why) in [
            (String::new(), "missing field `name`"),
            (file("new = 1"), "line 4: unknown field `new`"),
            (file("[options]\na = 1.5"), "option `a`: expected a string, a whole number"),
            (file("[options.a]\nb = 1"), "option `a`: expected a string"),
            (file("replaces = [\"12\"]"), "`replaces`: expected \"sha256:\" and 64"),
            (file("").replace(DIGEST, "12"), "expected 64 hexadecimal digits, found 2 characters"),
            (file("").replace("\"mine\"", "\"../x\""), "the name `../x` is not possible"),
            (file("[options"), "line 4: "),
        ] {
            let found = NamedByData::parse(&text).expect_err(&text);
            assert!(found.contains(why), "{text}: {found}");
        }
    }

    #[test]
    fn an_address_begins_at_the_file_and_leaves_s3_only_for_s3() {
        let named = |address: &str| {
            let text = file("").replace("mine.wasm", address);
            NamedByData::parse(&text).unwrap()
        };
        let (here, there) = (
            Location::File("data/train/decoder.toml".into()),
            Location::of_name("s3://b/train/decoder.toml").unwrap(),
        );
        for (place, address, origin) in [
            (&here, "mine.wasm", "data/train/mine.wasm"),
            (&here, "../mine.wasm", "data/train/../mine.wasm"),
            (&here, "/opt/mine.wasm", "/opt/mine.wasm"),
            (&here, "s3://c/mine.wasm", "s3://c/mine.wasm"),
            (&there, "mine.wasm", "s3://b/train/mine.wasm"),
            (&there, "p/mine.wasm", "s3://b/train/p/mine.wasm"),
            (&there, "s3://c/mine.wasm", "s3://c/mine.wasm"),
        ] {
            let found = named(address).origin(place).expect(address);
            assert_eq!(found.to_string(), origin);
        }
        for address in ["/etc/passwd", "../mine.wasm", "a/./b", "a//b"] {
            let why = named(address).origin(&there).expect_err(address);
            assert!(why.contains("no path of this machine"), "{why}");
        }
        for place in [&here, &there] {
            for address in ["http://169.254.169.254/x", "https://host/x", "oci://host/x:1"] {
                let why = named(address).origin(place).expect_err(address);
                assert!(why.contains("nothing of the web is fetched"), "{why}");
            }
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(
            text in "(name = \"a\"\\n)?(sha256 = \"x\"\\n)?[ -~\\n\u{e9}]{0,200}"
        ) {
            let _ = NamedByData::parse(&text);
        }
    }
}
