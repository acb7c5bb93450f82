//! The checksum that S3 stores of a whole object, and its comparison with the bytes that were read.

use std::fmt;

use aws_sdk_s3::types::ChecksumType;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crc_fast::{CrcAlgorithm, Digest};
use sha2::{Digest as _, Sha256};

use crate::cache::with_page;

/// A checksum of a whole object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Checksum {
    algorithm: Algorithm,
    /// In the byte order of S3's headers.
    value: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Algorithm {
    Crc32,
    Crc32c,
    Crc64Nvme,
    Sha256,
}

/// The checksum headers of a response, in base64.
pub(super) struct ChecksumHeaders<'a> {
    pub(super) crc32: Option<&'a str>,
    pub(super) crc32c: Option<&'a str>,
    pub(super) crc64nvme: Option<&'a str>,
    pub(super) sha256: Option<&'a str>,
    /// Whether they cover the whole object; `None` if the server does not say.
    pub(super) kind: Option<&'a ChecksumType>,
    /// The object's ETag.
    pub(super) etag: Option<&'a str>,
}

impl ChecksumHeaders<'_> {
    /// Whether a value may be a checksum of the parts' checksums. CRC-64/NVME never is. For the
    /// other algorithms, a server that does not report the type may store such values for multipart
    /// uploads.
    fn may_be_composite(&self) -> bool {
        match self.kind {
            Some(kind) => *kind == ChecksumType::Composite,
            None => self.etag.is_some_and(is_of_parts),
        }
    }
}

/// Whether an ETag is that of an upload in parts: `"…-12"`.
fn is_of_parts(etag: &str) -> bool {
    let count = etag.trim_matches('"').rsplit_once('-').map_or("", |(_, count)| count);
    !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit())
}

impl Checksum {
    /// The checksum that is fastest to compute. Composite checksums of multipart uploads, which
    /// have the form `value-parts`, are ignored: they are not checksums of the object's bytes.
    pub(super) fn from_headers(headers: &ChecksumHeaders) -> Option<Self> {
        let may_be_composite = headers.may_be_composite();
        let all = [
            (Algorithm::Crc64Nvme, headers.crc64nvme, 8),
            (Algorithm::Crc32c, headers.crc32c, 4),
            (Algorithm::Crc32, headers.crc32, 4),
            (Algorithm::Sha256, headers.sha256, 32),
        ];
        let is_whole = |algorithm| !may_be_composite || algorithm == Algorithm::Crc64Nvme;
        all.into_iter().filter(|(algorithm, ..)| is_whole(*algorithm)).find_map(|one| {
            let (algorithm, text, length) = one;
            let value = STANDARD.decode(text?).ok().filter(|value| value.len() == length)?;
            Some(Self { algorithm, value })
        })
    }

    /// The checksum as bytes, for [`from_bytes`](Self::from_bytes).
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        [&[self.algorithm as u8], &*self.value].concat()
    }

    /// The checksum of these bytes. `None` if they are none.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (kind, value) = bytes.split_first()?;
        let all = [
            (Algorithm::Crc32, 4),
            (Algorithm::Crc32c, 4),
            (Algorithm::Crc64Nvme, 8),
            (Algorithm::Sha256, 32),
        ];
        let is_this = |one: &(Algorithm, usize)| (one.0 as u8, one.1) == (*kind, value.len());
        let (algorithm, _) = all.into_iter().find(is_this)?;
        Some(Self { algorithm, value: value.to_vec() })
    }

    /// A hasher that computes this kind of checksum.
    pub(super) fn hasher(&self) -> Hasher {
        let crc = |algorithm| Hasher::Crc(Box::new(Digest::new(algorithm)));
        match self.algorithm {
            Algorithm::Crc32 => crc(CrcAlgorithm::Crc32IsoHdlc),
            Algorithm::Crc32c => crc(CrcAlgorithm::Crc32Iscsi),
            Algorithm::Crc64Nvme => Hasher::Crc64Nvme(0),
            Algorithm::Sha256 => Hasher::Sha256(Box::default()),
        }
    }

    /// Compares it with the hasher's result; the error is the computed checksum in base64.
    pub(super) fn verify(&self, hasher: Hasher) -> Result<(), String> {
        let computed = match hasher {
            Hasher::Crc64Nvme(sum) => sum.to_be_bytes().to_vec(),
            Hasher::Sha256(hasher) => hasher.finalize().to_vec(),
            Hasher::Crc(hasher) => hasher.finalize().to_be_bytes()[8 - self.value.len()..].to_vec(),
        };
        if computed == self.value { Ok(()) } else { Err(STANDARD.encode(computed)) }
    }

    /// The message for a checksum that differs. `computed` is the error of [`Checksum::verify`].
    pub(super) fn mismatch(&self, computed: &str) -> String {
        format!("its bytes have the checksum {computed}, and the server keeps {self}")
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.algorithm {
            Algorithm::Crc32 => "CRC32",
            Algorithm::Crc32c => "CRC32C",
            Algorithm::Crc64Nvme => "CRC64NVME",
            Algorithm::Sha256 => "SHA256",
        };
        write!(f, "{name} {}", STANDARD.encode(&self.value))
    }
}

/// Computes a checksum of bytes that arrive in pieces.
pub(super) enum Hasher {
    Crc(Box<Digest>),
    /// The checksum of the bytes so far.
    Crc64Nvme(u64),
    Sha256(Box<Sha256>),
}

impl Hasher {
    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Crc(hasher) => hasher.update(bytes),
            Self::Crc64Nvme(sum) => {
                // The state is the checksum with all bits flipped.
                let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc64Nvme, !*sum);
                digest.update(bytes);
                *sum = digest.finalize();
            }
            Self::Sha256(hasher) => hasher.update(bytes),
        }
    }

    /// Takes bytes, with the CRC-64/NVME of each page of them, if that is known.
    pub(super) fn update_pages(&mut self, bytes: &[u8], sums: &[u64]) {
        match self {
            Self::Crc64Nvme(before) if !sums.is_empty() => {
                *before = sums.iter().fold(*before, |sum, page| with_page(sum, *page));
            }
            _ => self.update(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: ChecksumHeaders<'_> = ChecksumHeaders {
        crc32: None,
        crc32c: None,
        crc64nvme: None,
        sha256: None,
        kind: None,
        etag: None,
    };

    fn matches(headers: &ChecksumHeaders, bytes: &[u8]) -> bool {
        let checksum = Checksum::from_headers(headers).unwrap();
        let mut hasher = checksum.hasher();
        bytes.chunks(2).for_each(|part| hasher.update(part));
        checksum.verify(hasher).is_ok()
    }

    /// The check values of the algorithms' definitions are the checksums of "123456789".
    #[test]
    fn computes_the_check_values_of_all_algorithms() {
        let crc32 = STANDARD.encode(0xcbf4_3926_u32.to_be_bytes());
        let crc32c = STANDARD.encode(0xe306_9283_u32.to_be_bytes());
        let crc64 = STANDARD.encode(0xae8b_1486_0a79_9888_u64.to_be_bytes());
        let sha = STANDARD.encode(Sha256::digest(b"123456789"));
        for headers in [
            ChecksumHeaders { crc32: Some(&crc32), ..NONE },
            ChecksumHeaders { crc32c: Some(&crc32c), ..NONE },
            ChecksumHeaders { crc64nvme: Some(&crc64), ..NONE },
            ChecksumHeaders { sha256: Some(&sha), ..NONE },
        ] {
            assert!(matches(&headers, b"123456789"));
            assert!(!matches(&headers, b"123456788"));
        }
    }

    #[test]
    fn composite_and_malformed_checksums_are_ignored() {
        assert_eq!(
            Checksum::from_headers(&ChecksumHeaders { crc32: Some("y/Q5Jg==-3"), ..NONE }),
            None
        );
        assert_eq!(Checksum::from_headers(&ChecksumHeaders { crc32: Some("y/Q5"), ..NONE }), None);
        let whole = ChecksumHeaders { crc32: Some("y/Q5Jg=="), ..NONE };
        assert!(Checksum::from_headers(&whole).is_some());
        // Not all servers mark the value: the type or the ETag shows it.
        let kind = Some(&ChecksumType::Composite);
        assert_eq!(Checksum::from_headers(&ChecksumHeaders { kind, ..whole }), None);
        let etag = Some("\"9b2cf535f27731c974343645a3985328-2\"");
        assert_eq!(Checksum::from_headers(&ChecksumHeaders { etag, ..whole }), None);
        let kind = Some(&ChecksumType::FullObject);
        assert!(Checksum::from_headers(&ChecksumHeaders { kind, etag, ..whole }).is_some());
        let crc64nvme = Some("rosUhgoQ3pE=");
        let both = ChecksumHeaders { etag, crc64nvme, ..whole };
        assert_eq!(Checksum::from_headers(&both).unwrap().algorithm, Algorithm::Crc64Nvme);
    }
}
