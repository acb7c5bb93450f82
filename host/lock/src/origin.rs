//! The place from which a plugin comes: a path, an object in S3, an address of the web, an artifact
//! in a registry.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Component, Path, PathBuf};

use pipemill_source::s3::Address;
use pipemill_source::web::Artifact;
use pipemill_source::{Location, other_address};
use pipemill_types::printable;
use url::Url;

/// The place from which a plugin comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A file.
    File(PathBuf),
    /// An object in S3.
    S3(Address),
    /// An address that begins with `https://` or `http://`. It has no user and no password.
    Web(Url),
    /// An artifact in a registry of container images.
    Registry(Artifact),
}

impl Origin {
    /// The origin of this name, as a person gives it.
    ///
    /// # Errors
    /// It is an address from which no plugin can be fetched; the error says what to do.
    pub fn of_name(name: &OsStr) -> Result<Self, String> {
        let text = name.to_string_lossy();
        let is = |scheme: &str| {
            text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        };
        if is("https://") || is("http://") {
            return web(&text);
        }
        if is("oci://") {
            let artifact = Artifact::of_name(&text);
            return artifact
                .map(Self::Registry)
                .map_err(|why| format!("`{}` is no address of a plugin: {why}", printable(&text)));
        }
        if let Some(other) = other_address(name) {
            return Err(format!("`{}` is {}; {}", printable(&text), other.what, other.remedy));
        }
        match Location::of_name(name) {
            Ok(Location::File(path)) => Ok(Self::File(path)),
            Ok(Location::S3(address)) => Ok(Self::S3(address)),
            Err(why) => Err(format!(
                "`{}` is no address of a plugin: {why}; write it as s3://bucket/key",
                printable(&text)
            )),
        }
    }

    /// The origin of the text in a lock file. A relative path begins at the lock file's folder.
    ///
    /// # Errors
    /// As [`of_name`](Self::of_name).
    pub fn of_locked(text: &str, lock_file: &Path) -> Result<Self, String> {
        match Self::of_name(text.as_ref())? {
            Self::File(path) => Ok(Self::File(lock_file.with_file_name("").join(path))),
            origin => Ok(origin),
        }
    }

    /// The text for a lock file. A path that lies in the lock file's folder is relative to it, so
    /// that both can be moved together; any other is absolute. An address has no query, because a
    /// query may hold a signature, and a lock file is for all to read.
    ///
    /// # Errors
    /// It is a path that is not UTF-8, as a lock file is.
    pub fn to_locked(&self, lock_file: &Path) -> Result<String, String> {
        let path = match self {
            Self::File(path) => path,
            Self::S3(_) | Self::Registry(_) => return Ok(self.to_string()),
            Self::Web(url) => {
                let mut url = url.clone();
                url.set_query(None);
                return Ok(url.into());
            }
        };
        let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let folder = std::path::absolute(lock_file).unwrap_or_default().with_file_name("");
        let is_plain = |path: &Path| path.components().all(|part| part != Component::ParentDir);
        let kept = match path.strip_prefix(&folder) {
            Ok(inner) if is_plain(inner) => inner,
            _ => &path,
        };
        let text = kept.to_str().ok_or_else(|| {
            format!("{}: its path is not UTF-8, as a lock file is; rename it", path.display())
        })?;
        // No part of an absolute path is empty, so it does not look like an address.
        Ok(text.to_owned())
    }

    /// Whether everybody between here and the origin can change what comes: then only a digest
    /// shows what it is.
    pub fn is_unprotected(&self) -> bool {
        matches!(self, Self::Web(url) if url.scheme() == "http")
    }

    /// The last part of the name, without its ending: the plugin's name, if its file says none.
    pub fn file_stem(&self) -> String {
        let last = match self {
            Self::File(path) => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            Self::S3(address) => address.key.rsplit('/').next().unwrap_or_default().to_owned(),
            Self::Web(url) => url.path().rsplit('/').next().unwrap_or_default().to_owned(),
            Self::Registry(artifact) => artifact.last_name().to_owned(),
        };
        last.strip_suffix(".wasm").unwrap_or(&last).to_owned()
    }
}

/// The origin of an address of the web.
fn web(text: &str) -> Result<Origin, String> {
    let wrong = |why: &str| format!("`{}` is no address of a plugin: {why}", printable(text));
    let mut url = Url::parse(text).map_err(|why| wrong(&why.to_string()))?;
    if !url.username().is_empty() || url.password().is_some() {
        // The address is not repeated: it has a password.
        let why = "an address with a user or password is not fetched, because the lock file would \
                   show it; download the file, and give its path";
        return Err(why.to_owned());
    }
    url.set_fragment(None);
    Ok(Origin::Web(url))
}

/// What messages call it. The query of an address is left out: it may hold a signature.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::S3(address) => address.fmt(f),
            Self::Web(url) => {
                let mut url = url.clone();
                url.set_query(None);
                url.fmt(f)
            }
            Self::Registry(artifact) => artifact.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Origin {
        Origin::of_name(name.as_ref()).unwrap_or_else(|why| panic!("{name}: {why}"))
    }

    #[test]
    fn an_origin_is_found_again_from_its_lock_file() {
        let lock = Path::new("/work/job/pipemill.lock");
        for (origin, text) in [
            (of("/work/job/plugins/a.wasm"), "plugins/a.wasm"),
            (of("/work/other/a.wasm"), "/work/other/a.wasm"),
            (of("/work/job/../a.wasm"), "/work/job/../a.wasm"),
            (Origin::File("/work/job/x://y".into()), "x:/y"),
            (of("s3://bucket/a/b.wasm"), "s3://bucket/a/b.wasm"),
            (of("https://host/a.wasm?X-Amz-Signature=1#x"), "https://host/a.wasm"),
            (of("oci://ghcr.io/a/b:1"), "oci://ghcr.io/a/b:1"),
        ] {
            assert_eq!(origin.to_locked(lock).as_deref(), Ok(text));
            let again = Origin::of_locked(text, lock).expect(text);
            assert_eq!(again.to_locked(lock).as_deref(), Ok(text));
        }
    }

    #[test]
    fn what_is_no_origin_says_what_to_do() {
        for (name, why) in [
            ("s3://bucket", "s3://bucket/key"),
            ("gs://bucket/a.wasm", "Google"),
            ("https://", "no address"),
            ("https://me:secret@host/a.wasm", "user or password"),
            ("oci://host", "oci://registry/repository:tag"),
        ] {
            let found = Origin::of_name(name.as_ref()).expect_err(name);
            assert!(found.contains(why) && !found.contains("secret"), "{found}");
        }
    }

    #[test]
    fn the_name_of_a_plugin_without_one_is_that_of_its_file() {
        for (name, stem) in [
            ("x/a.b.wasm", "a.b"),
            ("s3://b/k/c.wasm", "c"),
            ("d", "d"),
            ("https://h/x/e.wasm?q=1", "e"),
            ("oci://h/x/f:1", "f"),
        ] {
            assert_eq!(of(name).file_stem(), stem);
        }
        assert!(of("http://h/a").is_unprotected() && !of("https://h/a").is_unprotected());
        assert!(!of("https://h/a?sig=1").to_string().contains("sig"));
    }
}
