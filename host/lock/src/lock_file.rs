//! The content of `pipemill.lock`: for each plugin its name, version, SHA-256 and origin.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use pipemill_decode::Digest;
use pipemill_types::printable;
use serde::{Deserialize, Serialize};

use crate::name::PluginName;

/// The name of a lock file.
pub const LOCK_FILE: &str = "pipemill.lock";
/// The name of the folder with the plugins, next to the lock file.
const FOLDER: &str = "pipemill.plugins";
/// The version of the format.
const VERSION: i64 = 1;
/// Largest size of a lock file in bytes: thousands of plugins.
const MAX_BYTES: u64 = 1 << 20;
/// Largest length of an origin in bytes.
const MAX_ORIGIN_BYTES: usize = 8 << 10;
/// The first lines of the file.
const HEAD: &str = "# `pipemill plugin add`, `remove` and `fetch` write this file. Keep it with \
                    the configuration.\n";

/// Why a lock file can't be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {message}")]
pub struct LockError {
    /// The path of the lock file, or of a file in its folder.
    pub file: String,
    /// The problem and the remedy.
    pub message: String,
}

impl LockError {
    pub(crate) fn new(file: &Path, message: impl Into<String>) -> Self {
        Self { file: file.display().to_string(), message: message.into() }
    }
}

/// A plugin of a lock file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockedPlugin {
    /// Its name and version.
    pub name: PluginName,
    /// The SHA-256 that its file has.
    pub sha256: Digest,
    /// The place from which it was added, in the form of [`Origin`](crate::Origin).
    pub origin: String,
}

/// A lock file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockFile {
    /// Its path.
    pub path: PathBuf,
    /// Its plugins, sorted by name and version. No two have the same of both.
    pub plugins: Vec<LockedPlugin>,
}

/// The file as TOML.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: i64,
    #[serde(default)]
    plugin: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    version: String,
    sha256: String,
    origin: String,
}

impl LockFile {
    /// Reads the lock file at this path.
    ///
    /// # Errors
    /// It can't be read, is damaged, or was written by a later version of pipemill.
    pub fn read(path: &Path) -> Result<Self, LockError> {
        let text = read_text(path, MAX_BYTES)
            .map_err(|why| LockError::new(path, format!("the lock file can't be read: {why}")))?;
        Self::parse(path, &text).map_err(|why| {
            let remedy = "restore it, for example with git; or remove it, and add its plugins \
                          again with `pipemill plugin add`";
            let message = match why {
                Damage::Newer(version) => format!(
                    "is a lock file of version {version}, and this pipemill knows {VERSION}: use \
                     the pipemill that wrote it, or a later one"
                ),
                Damage::Other(why) => format!("is no sound lock file: {why}; {remedy}"),
            };
            LockError::new(path, message)
        })
    }

    fn parse(path: &Path, text: &str) -> Result<Self, Damage> {
        let in_text = |error: toml::de::Error| {
            let line = error.span().map(|at| text[..at.start].matches('\n').count() + 1);
            let line = line.map_or(String::new(), |line| format!("line {line}: "));
            Damage::Other(format!("{line}{}", printable(error.message())))
        };
        // A later version may have other keys, so its number is looked at first.
        let table: toml::Table = toml::from_str(text).map_err(in_text)?;
        match table.get("version").and_then(toml::Value::as_integer) {
            Some(VERSION) => {}
            Some(version) if version > VERSION => return Err(Damage::Newer(version)),
            _ => return Err(Damage::Other(format!("expected `version = {VERSION}`"))),
        }
        let document: Document = toml::from_str(text).map_err(in_text)?;
        let mut plugins = Vec::new();
        for entry in document.plugin {
            plugins.push(entry.check().map_err(Damage::Other)?);
        }
        plugins.sort_by(|one, other| one.name.cmp(&other.name));
        let twice = plugins.windows(2).find(|two| two[0].name == two[1].name);
        if let Some([twice, _]) = twice {
            return Err(Damage::Other(format!("`{}` is there twice", twice.name)));
        }
        Ok(Self { path: path.to_owned(), plugins })
    }

    /// The text of the file. The same plugins have the same text, in whatever order they were
    /// added.
    pub(crate) fn text(&self) -> String {
        let entry = |plugin: &LockedPlugin| Entry {
            name: plugin.name.name().to_owned(),
            version: plugin.name.version().to_owned(),
            sha256: plugin.sha256.to_string(),
            origin: plugin.origin.clone(),
        };
        let plugin = self.plugins.iter().map(entry).collect();
        let document = Document { version: VERSION, plugin };
        // Numbers, texts and tables have a form in TOML.
        let body = toml::to_string(&document).expect("a lock file can be written as TOML");
        format!("{HEAD}{body}")
    }

    /// The folder that has the files of the plugins.
    pub fn folder(&self) -> PathBuf {
        folder_of(&self.path)
    }

    /// The path of a plugin's file.
    pub fn file_of(&self, plugin: &LockedPlugin) -> PathBuf {
        self.folder().join(file_name(&plugin.sha256))
    }
}

/// The folder of the plugins of the lock file at this path.
pub(crate) fn folder_of(lock_file: &Path) -> PathBuf {
    lock_file.with_file_name(FOLDER)
}

/// The name of the file of the plugin with this digest.
pub(crate) fn file_name(sha256: &Digest) -> String {
    format!("{sha256}.wasm")
}

/// Why a text is not a lock file.
enum Damage {
    /// It has this later version.
    Newer(i64),
    Other(String),
}

impl Entry {
    fn check(self) -> Result<LockedPlugin, String> {
        let name = PluginName::new(&self.name, &self.version)?;
        let sha256 = self.sha256.parse().map_err(|found| {
            format!("the `sha256` of `{name}`: expected 64 hexadecimal digits, found {found}")
        })?;
        if self.origin.len() > MAX_ORIGIN_BYTES {
            return Err(format!("the `origin` of `{name}` has more than {MAX_ORIGIN_BYTES} bytes"));
        }
        Ok(LockedPlugin { name, sha256, origin: self.origin })
    }
}

/// Reads a regular file of at most `most` bytes.
pub(crate) fn read_text(path: &Path, most: u64) -> io::Result<String> {
    // Opening a FIFO would wait for its writer.
    let file = File::options().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is a folder, pipe or device, not a regular file"));
    }
    let mut bytes = Vec::new();
    if file.take(most + 1).read_to_end(&mut bytes)? as u64 > most {
        return Err(io::Error::other(format!("it has more than {most} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<LockFile, String> {
        LockFile::parse(Path::new("pipemill.lock"), text).map_err(|damage| match damage {
            Damage::Newer(version) => format!("newer: {version}"),
            Damage::Other(why) => why,
        })
    }

    fn plugin(name: &str, version: &str, origin: &str) -> LockedPlugin {
        let sha256 = Digest::of(format!("{name} {version}").as_bytes());
        let name = PluginName::new(name, version).expect("a name");
        LockedPlugin { name, sha256, origin: origin.to_owned() }
    }

    #[test]
    fn what_is_no_lock_file_is_refused_with_its_place() {
        let entry = "[[plugin]]\nname = \"a\"\nversion = \"1\"\norigin = \"x\"\n";
        let digest = format!("sha256 = \"{}\"\n", Digest::of(b""));
        for (text, why) in [
            ("", "expected `version = 1`"),
            ("version = 0", "expected `version = 1`"),
            ("version = \"1\"", "expected `version = 1`"),
            ("version = 2\nnew = 3", "newer: 2"),
            ("version = 1\nnew = 3", "line 2: unknown field `new`"),
            ("version = 1\n[[plugin]", "line 2: "),
            (&format!("version = 1\n{entry}"), "missing field `sha256`"),
            (&format!("version = 1\n{entry}sha256 = \"12\"\n"), "expected 64 hexadecimal digits"),
            (&format!("version = 1\n{entry}{digest}{entry}{digest}"), "`a@1` is there twice"),
            (
                &format!("version = 1\n{entry}{digest}").replace("\"a\"", "\"../a\""),
                "the name `../a` is not possible",
            ),
        ] {
            let found = parse(text).expect_err(text);
            assert!(found.contains(why), "{text}: {found}");
        }
        assert_eq!(parse(&format!("version = 1\n{entry}{digest}")).unwrap().plugins.len(), 1);
    }

    proptest! {
        #[test]
        fn a_lock_file_is_read_as_it_was_written(
            named in proptest::collection::btree_map("[a-c]", "[ -~\\n\u{e9}\u{1b}\"]{0,20}", 0..4)
        ) {
            let plugins: Vec<_> =
                named.iter().map(|(name, origin)| plugin(name, "1", origin)).collect();
            let lock = LockFile { path: "pipemill.lock".into(), plugins };
            let again = parse(&lock.text()).expect("it is sound");
            prop_assert_eq!(again.text(), lock.text());
            prop_assert_eq!(again, lock);
        }

        #[test]
        fn no_text_makes_it_panic(text in "(version = 1\\n)?[ -~\\n]{0,200}") {
            let _ = parse(&text);
        }
    }
}
