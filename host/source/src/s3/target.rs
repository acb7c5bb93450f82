//! One object, pinned to the state in which it was found, and HEAD requests that find it.

use std::sync::OnceLock;

use aws_sdk_s3::operation::head_object::HeadObjectOutput;
use aws_sdk_s3::types::ChecksumMode;
use pipemill_types::{ObjectFacts, printable};
use tokio::time::timeout;

use super::address::Address;
use super::checksum::{Checksum, ChecksumHeaders};
use super::error::RequestError;
use super::retry::with_retries;
use super::runtime::S3Handle;
use crate::SourceError;

/// One object in one state: all its bytes come from the state in which it was found.
pub(super) struct Target {
    pub(super) address: Address,
    /// Stored size in bytes.
    pub(super) size: u64,
    /// From the list or the HEAD that found the object, otherwise from the first response.
    etag: OnceLock<String>,
    /// Its `Content-Type`, if a HEAD request has found the object.
    content_type: OnceLock<String>,
    /// Its `Content-Encoding`, which is known with the first byte.
    pub(super) encoding: OnceLock<String>,
    /// Checksum of the whole object. If the server stores one, it is known with the first byte.
    pub(super) checksum: OnceLock<Checksum>,
}

impl Target {
    /// The facts that are known before the first byte. It is called before the first request.
    pub(super) fn facts(&self) -> ObjectFacts {
        ObjectFacts {
            size: Some(self.size),
            content_type: self.content_type.get().cloned(),
            etag: self.etag.get().cloned(),
            ..ObjectFacts::default()
        }
    }

    /// Shows that the object is still the same: its ETag, or its size if the server has none.
    pub(super) fn identity(&self) -> String {
        match self.etag.get() {
            Some(etag) => format!("etag:\"{}\"", printable(bare_etag(etag))),
            None => format!("size:{}", self.size),
        }
    }

    pub(super) fn new(address: Address, size: u64, etag: Option<&str>) -> Self {
        let target = Self {
            address,
            size,
            etag: OnceLock::new(),
            content_type: OnceLock::new(),
            encoding: OnceLock::new(),
            checksum: OnceLock::new(),
        };
        if let Some(etag) = etag.filter(|etag| !bare_etag(etag).is_empty()) {
            let _ = target.etag.set(etag.to_owned());
        }
        target
    }

    fn from_head(
        address: &Address,
        response: &HeadObjectOutput,
        verify: bool,
    ) -> Result<Self, SourceError> {
        let size = response.content_length().and_then(|size| u64::try_from(size).ok());
        let size = size.ok_or_else(|| {
            let message = "the answer to HEAD does not say its size";
            SourceError::new(address.to_string(), message, "use another server")
        })?;
        let target = Self::new(address.clone(), size, response.e_tag());
        if let Some(content_type) = response.content_type() {
            let _ = target.content_type.set(content_type.to_owned());
        }
        if let Some(encoding) = response.content_encoding() {
            let _ = target.encoding.set(encoding.to_owned());
        }
        let headers = ChecksumHeaders {
            crc32: response.checksum_crc32(),
            crc32c: response.checksum_crc32_c(),
            crc64nvme: response.checksum_crc64_nvme(),
            sha256: response.checksum_sha256(),
            kind: response.checksum_type(),
            etag: response.e_tag(),
        };
        if verify && let Some(checksum) = Checksum::from_headers(&headers) {
            let _ = target.checksum.set(checksum);
        }
        Ok(target)
    }

    /// Whether it is known to have a `Content-Encoding`.
    pub(super) fn is_encoded(&self) -> bool {
        self.encoding.get().is_some_and(|encoding| !encoding.is_empty())
    }

    /// The value of `If-Match`.
    pub(super) fn etag(&self) -> Option<&String> {
        self.etag.get()
    }

    /// Stores ETag and encoding of a response, and refuses a response with another ETag.
    pub(super) fn pin(
        &self,
        etag: Option<&str>,
        encoding: Option<&str>,
    ) -> Result<(), RequestError> {
        if let Some(etag) = etag {
            let pinned = self.etag.get_or_init(|| etag.to_owned());
            if bare_etag(pinned) != bare_etag(etag) {
                let change =
                    format!("its ETag was {} and is {} now", printable(pinned), printable(etag));
                return Err(RequestError::Changed(change));
            }
        }
        if let Some(encoding) = encoding {
            let _ = self.encoding.set(encoding.to_owned());
        }
        Ok(())
    }
}

/// An ETag without quotes, because not all servers send them.
pub(super) fn bare_etag(etag: &str) -> &str {
    etag.trim_start_matches("W/").trim_matches('"')
}

/// Gets an object's size, ETag and encoding by a HEAD request; with `verify` also its checksum.
pub(super) async fn head(
    s3: &S3Handle,
    address: &Address,
    verify: bool,
) -> Result<Target, SourceError> {
    let response = with_retries(s3, address, || send_head(s3, address)).await?;
    Target::from_head(address, &response, verify)
}

async fn send_head(s3: &S3Handle, address: &Address) -> Result<HeadObjectOutput, RequestError> {
    let client = s3.client(address).await.map_err(RequestError::Fatal)?;
    let request = client
        .head_object()
        .bucket(&*address.bucket)
        .key(&address.key)
        .set_version_id(address.version.clone())
        .set_request_payer(s3.request_payer())
        .checksum_mode(ChecksumMode::Enabled);
    let response = timeout(s3.stall_timeout, request.send())
        .await
        .map_err(|_| {
            RequestError::retryable(format!("HEAD had no answer for {:?}", s3.stall_timeout))
        })?
        .map_err(|error| RequestError::from_sdk(&error, address, "HEAD"))?;
    s3.set_responded();
    Ok(response)
}
