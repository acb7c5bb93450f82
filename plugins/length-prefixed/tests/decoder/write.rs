//! A writer for each encoding of a length.

use pipemill_parsing::testing::varints;

/// An encoding of lengths: the value of the option `prefix`, and whether they count their own
/// bytes.
#[derive(Debug, Clone, Copy)]
pub struct Encoding {
    pub prefix: &'static str,
    pub includes: bool,
}

pub const PREFIXES: [&str; 7] = ["u16le", "u16be", "u32le", "u32be", "u64le", "u64be", "varint"];

impl Encoding {
    pub fn options(self) -> [(&'static str, &'static str); 2] {
        let includes = if self.includes { "true" } else { "false" };
        [("prefix", self.prefix), ("includes_prefix", includes)]
    }

    /// The bytes of a length.
    pub fn length(self, value: u64) -> Vec<u8> {
        match self.prefix {
            "u16le" => (value as u16).to_le_bytes().to_vec(),
            "u16be" => (value as u16).to_be_bytes().to_vec(),
            "u32le" => (value as u32).to_le_bytes().to_vec(),
            "u32be" => (value as u32).to_be_bytes().to_vec(),
            "u64le" => value.to_le_bytes().to_vec(),
            "u64be" => value.to_be_bytes().to_vec(),
            _ => varints([value]),
        }
    }

    /// A record with its length.
    pub fn record(self, payload: &[u8]) -> Vec<u8> {
        let plain = payload.len() as u64;
        // A varint that counts its own bytes may need one more byte for that.
        let own = |size| self.length(plain + size).len() as u64 == size;
        let own = if self.includes { (1..=10).find(|size| own(*size)) } else { Some(0) };
        let length = self.length(plain + own.expect("some size fits"));
        [&length, payload].concat()
    }
}
