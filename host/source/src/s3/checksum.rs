//! The checksum that S3 keeps of a whole object, compared with the bytes that came.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crc_fast::CrcAlgorithm;
use sha2::{Digest as _, Sha256};

/// A checksum of a whole object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Checksum {
    kind: Kind,
    value: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Crc32,
    Crc32c,
    Crc64Nvme,
    Sha256,
}

/// What an answer says of the object's checksums, in base64.
pub(super) struct Given<'a> {
    pub(super) crc32: Option<&'a str>,
    pub(super) crc32c: Option<&'a str>,
    pub(super) crc64nvme: Option<&'a str>,
    pub(super) sha256: Option<&'a str>,
}

impl Checksum {
    /// The one that is quickest to check. That of a multipart upload's parts, `value-parts`, is not one of
    /// the object's bytes.
    pub(super) fn of(given: &Given) -> Option<Self> {
        let all = [
            (Kind::Crc64Nvme, given.crc64nvme, 8),
            (Kind::Crc32c, given.crc32c, 4),
            (Kind::Crc32, given.crc32, 4),
            (Kind::Sha256, given.sha256, 32),
        ];
        all.into_iter().find_map(|(kind, text, length)| {
            let value = STANDARD.decode(text?).ok().filter(|value| value.len() == length)?;
            Some(Self { kind, value })
        })
    }

    /// Begins to compute it.
    pub(super) fn begin(&self) -> Sum {
        let crc = |algorithm| Sum::Crc(Box::new(crc_fast::Digest::new(algorithm)));
        match self.kind {
            Kind::Crc32 => crc(CrcAlgorithm::Crc32IsoHdlc),
            Kind::Crc32c => crc(CrcAlgorithm::Crc32Iscsi),
            Kind::Crc64Nvme => crc(CrcAlgorithm::Crc64Nvme),
            Kind::Sha256 => Sum::Sha256(Box::default()),
        }
    }

    /// Compares; the error has what was computed.
    pub(super) fn check(&self, sum: Sum) -> Result<(), String> {
        let found = match sum {
            Sum::Sha256(sum) => sum.finalize().to_vec(),
            Sum::Crc(sum) => sum.finalize().to_be_bytes()[8 - self.value.len()..].to_vec(),
        };
        if found == self.value { Ok(()) } else { Err(STANDARD.encode(found)) }
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.kind {
            Kind::Crc32 => "CRC32",
            Kind::Crc32c => "CRC32C",
            Kind::Crc64Nvme => "CRC64NVME",
            Kind::Sha256 => "SHA256",
        };
        write!(f, "{name} {}", STANDARD.encode(&self.value))
    }
}

/// A checksum being computed.
pub(super) enum Sum {
    Crc(Box<crc_fast::Digest>),
    Sha256(Box<Sha256>),
}

impl Sum {
    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Crc(sum) => sum.update(bytes),
            Self::Sha256(sum) => sum.update(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What S3 gives for the bytes "123456789": the check values of the algorithms' definitions.
    const NONE: Given<'_> = Given { crc32: None, crc32c: None, crc64nvme: None, sha256: None };

    fn agrees(given: &Given, bytes: &[u8]) -> bool {
        let checksum = Checksum::of(given).unwrap();
        let mut sum = checksum.begin();
        bytes.chunks(2).for_each(|part| sum.update(part));
        checksum.check(sum).is_ok()
    }

    #[test]
    fn check_values() {
        let crc32 = STANDARD.encode(0xcbf4_3926_u32.to_be_bytes());
        let crc32c = STANDARD.encode(0xe306_9283_u32.to_be_bytes());
        let crc64 = STANDARD.encode(0xae8b_1486_0a79_9888_u64.to_be_bytes());
        let sha = STANDARD.encode(Sha256::digest(b"123456789"));
        for given in [
            Given { crc32: Some(&crc32), ..NONE },
            Given { crc32c: Some(&crc32c), ..NONE },
            Given { crc64nvme: Some(&crc64), ..NONE },
            Given { sha256: Some(&sha), ..NONE },
        ] {
            assert!(agrees(&given, b"123456789"));
            assert!(!agrees(&given, b"123456788"));
        }
    }

    #[test]
    fn those_of_parts_are_none() {
        assert_eq!(Checksum::of(&Given { crc32: Some("y/Q5Jg==-3"), ..NONE }), None);
        assert_eq!(Checksum::of(&Given { crc32: Some("y/Q5"), ..NONE }), None);
    }
}
