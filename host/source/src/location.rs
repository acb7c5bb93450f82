//! The place of a single file: a path, or an address in S3.

use std::ffi::OsStr;
use std::fmt;
use std::path::PathBuf;

use crate::s3::Address;

/// The place of a single file, such as an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A file.
    File(PathBuf),
    /// An object in S3. Its address has a key.
    S3(Address),
}

impl Location {
    /// The location of this name: an address in S3 begins with `s3://`.
    ///
    /// # Errors
    /// It is no address of an object; the error says why, in words that follow the name.
    pub fn of_name(name: impl AsRef<OsStr>) -> Result<Self, &'static str> {
        let name = name.as_ref();
        if !Address::is_s3_url(name) {
            return Ok(Self::File(name.into()));
        }
        let address = Address::of_name(name)?;
        if address.key.is_empty() || address.key.ends_with('/') {
            return Err("it names no object");
        }
        Ok(Self::S3(address))
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::S3(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Location;

    #[test]
    fn a_location_is_a_path_or_an_object() {
        let of = |name: &str| Location::of_name(name).map(|location| location.to_string());
        for name in ["a/b.index", "s3:/b", "S3://b/k", "s3://b/k.index", "s3://b/k?versionId=7"] {
            assert_eq!(of(name).as_deref(), Ok(name));
        }
        assert!(matches!(Location::of_name("s3://b/k"), Ok(Location::S3(_))));
        assert!(matches!(Location::of_name("b/k"), Ok(Location::File(_))));
        for name in ["s3://", "s3://b", "s3://b/", "s3://b/folder/"] {
            assert!(of(name).is_err(), "{name}");
        }
    }
}
