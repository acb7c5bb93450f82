//! `s3://bucket/key`: where an object is, as people write it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Where an object, or objects whose keys begin alike, are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The bucket's name, or an access point's.
    pub bucket: Arc<str>,
    /// The key as it is: nothing in it is an escape. May be empty.
    pub key: String,
    /// The version, if a certain one is meant.
    pub version: Option<String>,
}

const VERSION: &str = "?versionId=";

impl Address {
    /// Another object of the same bucket.
    pub(super) fn with_key(&self, key: &str) -> Self {
        Self { bucket: self.bucket.clone(), key: key.to_owned(), version: None }
    }

    /// Whether a text is meant as one.
    pub fn is_meant_by(text: &str) -> bool {
        text.starts_with("s3://")
    }
}

impl FromStr for Address {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let rest = text.strip_prefix("s3://").ok_or("it does not begin with s3://")?;
        let (rest, version) = match rest.rsplit_once(VERSION) {
            Some((rest, version)) if !version.is_empty() => (rest, Some(version.to_owned())),
            _ => (rest, None),
        };
        let (bucket, key) = match rest.strip_prefix("arn:") {
            // An access point: `arn:aws:s3:region:account:accesspoint/name/key`.
            Some(_) => {
                let slash = rest.match_indices('/').nth(1).map_or(rest.len(), |(at, _)| at);
                (&rest[..slash], rest[slash..].trim_start_matches('/'))
            }
            None => rest.split_once('/').unwrap_or((rest, "")),
        };
        if bucket.is_empty() {
            return Err("it has no bucket");
        }
        if bucket.contains(|c: char| c.is_whitespace() || c.is_control() || c == '*') {
            return Err("its bucket has a character that no bucket's name has");
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
    fn keys_are_taken_as_they_are() {
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
        for wrong in ["", "b/k", "s3:/b/k", "s3://", "s3:///k", "s3://a b/k", "https://b/k"] {
            assert_eq!(parts(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn is_written_as_it_was_read() {
        for text in ["s3://b/", "s3://b/k", "s3://b/a//b c", "s3://b/k?versionId=v1"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
    }
}
