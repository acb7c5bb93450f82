//! Addresses of objects in S3, written as `s3://bucket/key`.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::str::FromStr;
use std::sync::Arc;

/// Address of an object, or of all objects whose keys begin with the same prefix.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    /// Name of the bucket, or ARN of an access point.
    pub bucket: Arc<str>,
    /// The key or prefix, without any escapes. May be empty.
    pub key: String,
    /// Version of the object; `None` for the latest.
    pub version: Option<String>,
}

/// Largest length of a key in bytes. Amazon's keys have up to 1,024; other servers store objects in
/// files, whose paths have up to 4,096.
pub(super) const MAX_KEY_BYTES: usize = 4096;
/// Separates the key and the version.
const VERSION: &str = "?versionId=";

impl Address {
    /// The key up to its last `/`: the names of a list count below it.
    pub(crate) fn root(&self) -> &str {
        self.key.rfind('/').map_or("", |at| &self.key[..=at])
    }

    /// The latest version of another object in the same bucket.
    pub(crate) fn with_key(&self, key: &str) -> Self {
        Self { bucket: self.bucket.clone(), key: key.to_owned(), version: None }
    }

    /// Whether a name begins like an address. It may still be invalid.
    pub fn is_s3_url(name: impl AsRef<OsStr>) -> bool {
        name.as_ref().as_bytes().starts_with(b"s3://")
    }

    /// Parses a name of the command line, which need not be UTF-8.
    ///
    /// # Errors
    /// What is wrong, in words that follow the name.
    pub fn of_name(name: &OsStr) -> Result<Self, &'static str> {
        name.to_str().ok_or("expected UTF-8")?.parse()
    }
}

impl FromStr for Address {
    type Err = &'static str;

    /// Parses `s3://bucket/key` or `s3://bucket/key?versionId=version`.
    ///
    /// # Errors
    /// What is wrong, in words that follow the text's name.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let rest = text.strip_prefix("s3://").ok_or("it does not begin with s3://")?;
        let (rest, version) = match rest.rsplit_once(VERSION) {
            Some((rest, version)) if !version.is_empty() => (rest, Some(version.to_owned())),
            _ => (rest, None),
        };
        let (bucket, key) = match rest.strip_prefix("arn:") {
            // An access point: `arn:aws:s3:region:account:accesspoint/name/key`.
            Some(_) => {
                let (kind, name) = rest.split_once('/').unwrap_or((rest, ""));
                let (name, key) = name.split_once('/').unwrap_or((name, ""));
                (if name.is_empty() { "" } else { &rest[..=kind.len() + name.len()] }, key)
            }
            None => rest.split_once('/').unwrap_or((rest, "")),
        };
        if bucket.is_empty() {
            return Err("it has no bucket");
        }
        if bucket.contains(|c: char| c.is_whitespace() || c.is_control() || c == '*') {
            return Err("its bucket has a character that no bucket's name has");
        }
        if key.len() > MAX_KEY_BYTES {
            return Err("its key has more than 4,096 bytes");
        }
        Ok(Self { bucket: bucket.into(), key: key.to_owned(), version })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}/{}", self.bucket, self.key)?;
        self.version.as_ref().map_or(Ok(()), |version| write!(f, "{VERSION}{version}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Option<(String, String, Option<String>)> {
        let Address { bucket, key, version } = text.parse().ok()?;
        Some((bucket.to_string(), key, version))
    }

    #[test]
    fn bucket_key_and_version_are_parsed_without_unescaping() {
        let of = |bucket: &str, key: &str, version: Option<&str>| {
            Some((bucket.to_owned(), key.to_owned(), version.map(str::to_owned)))
        };
        assert_eq!(parts("s3://b"), of("b", "", None));
        assert_eq!(parts("s3://b/"), of("b", "", None));
        assert_eq!(parts("s3://b/a//b +%20ü"), of("b", "a//b +%20ü", None));
        assert_eq!(parts("s3://b//a"), of("b", "/a", None));
        assert_eq!(parts("s3://b/k?versionId=v1"), of("b", "k", Some("v1")));
        assert_eq!(parts("s3://b/k?x=1"), of("b", "k?x=1", None));
        let point = "arn:aws:s3:eu-west-1:123456789012:accesspoint/mine";
        assert_eq!(parts(&format!("s3://{point}/a/b")), of(point, "a/b", None));
        let long = format!("s3://b/{}", "k".repeat(MAX_KEY_BYTES + 1));
        assert!(parts(&long).is_none() && parts(&long[..long.len() - 1]).is_some());
        assert_eq!(parts(&format!("s3://{point}//a")), of(point, "/a", None));
        assert_eq!(parts(&format!("s3://{point}")), of(point, "", None));
        for wrong in ["s3://arn:b", "s3://arn:b/", "s3://arn:b//k"] {
            assert_eq!(parts(wrong), None, "{wrong}");
        }
        for wrong in ["", "b/k", "s3:/b/k", "s3://", "s3:///k", "s3://a b/k", "https://b/k"] {
            assert_eq!(parts(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn display_gives_the_parsed_text() {
        for text in ["s3://b/", "s3://b/k", "s3://b/a//b c", "s3://b/k?versionId=v1"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
    }
}
