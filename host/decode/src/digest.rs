//! The SHA-256 of a plugin's file: what names it exactly, in the configuration and in the cache.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

/// A SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digest([u8; 32]);

impl Digest {
    /// That of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(&self.0))
    }
}

impl FromStr for Digest {
    type Err = String;

    /// 64 hexadecimal digits, as `sha256sum` prints them.
    fn from_str(text: &str) -> Result<Self, String> {
        let bytes = hex::decode(text).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or_else(|| format!("{} characters", text.chars().count()))
    }
}
