//! The SHA-256 of a plugin's file. It identifies the file in the configuration and in the cache.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

/// The SHA-256 of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Computes the digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Reads `sha256:` and 64 hexadecimal digits: the form in which a plugin is identified.
    ///
    /// # Errors
    /// The text is something else. The error says what stands there.
    pub fn of_identity(text: &str) -> Result<Self, String> {
        match text.strip_prefix("sha256:") {
            Some(digits) => digits.parse(),
            None => Err("no `sha256:` before them".to_owned()),
        }
    }
}

/// 64 lower-case hexadecimal digits, as `sha256sum` prints them.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl FromStr for Digest {
    type Err = String;

    /// Reads 64 hexadecimal digits, as `sha256sum` prints them.
    ///
    /// # Errors
    /// The text is something else. The error says how many characters it has.
    fn from_str(text: &str) -> Result<Self, String> {
        let bytes = hex::decode(text).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or_else(|| format!("{} characters", text.chars().count()))
    }
}
