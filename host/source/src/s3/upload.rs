//! Writes an object as a whole or not at all: by one PUT, or in parts that become the object with
//! the last request. A reader sees the older object until then.
//!
//! The parts of an upload that fails are removed. Those of a process that is killed stay until the
//! bucket's lifecycle rule for incomplete uploads removes them; they are in no list.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{ChecksumAlgorithm, CompletedMultipartUpload, CompletedPart};
use bytes::Bytes;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::address::Address;
use super::error::RequestError;
use super::retry::Retries;
use super::runtime::{S3Handle, S3Runtime};
use super::settings::Settings;
use super::target::{bare_etag, head};
use super::whole::read_object;
use crate::SourceError;

/// S3 refuses smaller parts, but for the last one.
const MIN_PART_BYTES: u64 = 5 << 20;
/// S3 refuses more parts.
const MAX_PARTS: u64 = 10_000;
/// Parts that are sent at once.
const MAX_REQUESTS: usize = 4;
/// Slowest connection in bytes per second on which a request is not given up.
const MIN_RATE: u64 = 64 << 10;

/// Writes an object. With `replaces`, it replaces the state of this ETag and no other: where the
/// server knows no conditions for writing, the ETag is compared before the object is written.
///
/// # Errors
/// It can't be written, or has another ETag than `replaces`. Then the object is as it was, or as
/// others have written it.
pub fn write_object(
    s3: &S3Runtime,
    settings: &Settings,
    address: &Address,
    bytes: Bytes,
    replaces: Option<&str>,
) -> Result<(), SourceError> {
    if address.version.is_some() {
        let remedy = "name the key alone";
        return Err(SourceError::new(address.to_string(), "a version can't be written", remedy));
    }
    let upload = Arc::new(Upload {
        s3: s3.handle(settings),
        address: address.clone(),
        bytes: bytes.clone(),
        replaces: replaces.map(str::to_owned),
        is_conditional: AtomicBool::new(replaces.is_some()),
        part_size: settings.part_size.max(MIN_PART_BYTES),
    });
    let error = match s3.tokio().block_on(upload.clone().write()) {
        Ok(()) => return Ok(()),
        Err(error) => error,
    };
    // An earlier try may have written it, although its answer was lost.
    let may_be_written = match &error {
        RequestError::Changed(_) => true,
        RequestError::Fatal(error) => error.missing,
        RequestError::Retryable { .. } => false,
    };
    if may_be_written && read_object(s3, settings, address).is_ok_and(|now| now.bytes == bytes) {
        return Ok(());
    }
    Err(match error {
        RequestError::Changed(how) => {
            let message = format!("was replaced by another writer since it was read: {how}");
            SourceError::new(address.to_string(), message, "run the command again")
        }
        error => error.into_source_error(address),
    })
}

/// The upload of one object.
struct Upload {
    s3: S3Handle,
    address: Address,
    bytes: Bytes,
    /// The ETag of the state that is replaced.
    replaces: Option<String>,
    /// Whether the server checks the ETag. Relaxed: it is set back once.
    is_conditional: AtomicBool,
    /// Bytes of a part. An object of one part is sent by one PUT.
    part_size: u64,
}

impl Upload {
    async fn write(self: Arc<Self>) -> Result<(), RequestError> {
        self.check_replaced().await?;
        if self.bytes.len() as u64 <= self.part_size {
            return self.with_retries(|| self.put()).await;
        }
        let id = self.with_retries(|| self.begin()).await?;
        let written = self.clone().write_parts(&id).await;
        if written.is_err() {
            // The first error is reported, not that of the attempt to clean up.
            let _ = self.abort(&id).await;
        }
        written
    }

    /// Compares the ETag, for servers that ignore the condition of a request.
    async fn check_replaced(&self) -> Result<(), RequestError> {
        let Some(etag) = &self.replaces else { return Ok(()) };
        let now = match head(&self.s3, &self.address, false).await {
            Ok(now) => now.etag().cloned().unwrap_or_default(),
            Err(error) if error.missing => return Err(RequestError::Changed(REMOVED.to_owned())),
            Err(error) => return Err(RequestError::Fatal(error)),
        };
        if bare_etag(&now) == bare_etag(etag) {
            return Ok(());
        }
        Err(RequestError::Changed(format!("its ETag was {etag} and is {now} now")))
    }

    async fn put(&self) -> Result<(), RequestError> {
        let client = self.s3.client(&self.address).await.map_err(RequestError::Fatal)?;
        let request = client
            .put_object()
            .bucket(&*self.address.bucket)
            .key(&self.address.key)
            .set_if_match(self.condition())
            .set_request_payer(self.s3.request_payer())
            .body(ByteStream::from(self.bytes.clone()));
        self.answer("PUT", self.bytes.len(), request.send()).await.map(drop)
    }

    /// Begins an upload in parts, and returns its id.
    async fn begin(&self) -> Result<String, RequestError> {
        let client = self.s3.client(&self.address).await.map_err(RequestError::Fatal)?;
        let request = client
            .create_multipart_upload()
            .bucket(&*self.address.bucket)
            .key(&self.address.key)
            // The SDK sends this checksum with each part.
            .checksum_algorithm(ChecksumAlgorithm::Crc32)
            .set_request_payer(self.s3.request_payer());
        let begun = self.answer("the start of an upload", 0, request.send()).await?;
        begun.upload_id.ok_or_else(|| {
            let message = "the answer to the start of an upload has no id".to_owned();
            let address = self.address.to_string();
            RequestError::Fatal(SourceError::new(address, message, "use another server"))
        })
    }

    /// Sends all parts, and makes the object of them.
    async fn write_parts(self: Arc<Self>, id: &str) -> Result<(), RequestError> {
        let size = self.bytes.len() as u64;
        let part_size = self.part_size.max(size.div_ceil(MAX_PARTS));
        let (mut parts, mut failed) = (Vec::new(), None);
        let mut sent = JoinSet::new();
        for number in 0..size.div_ceil(part_size) {
            if sent.len() == MAX_REQUESTS {
                match joined(sent.join_next().await) {
                    Ok(part) => parts.push(part),
                    Err(error) => {
                        failed = Some(error);
                        break;
                    }
                }
            }
            let first = number * part_size;
            // They fit: the bytes are in memory.
            let range = first as usize..(first + part_size).min(size) as usize;
            let (own, id, part) = (self.clone(), id.to_owned(), self.bytes.slice(range));
            // There are `MAX_PARTS` at most; S3 numbers them from 1.
            let number = number as i32 + 1;
            sent.spawn(async move {
                own.with_retries(|| own.send_part(&id, number, part.clone())).await
            });
        }
        // A part that arrives after the upload was removed would stay, so none is left on its way.
        while !sent.is_empty() {
            match joined(sent.join_next().await) {
                Ok(part) => parts.push(part),
                Err(error) => {
                    failed.get_or_insert(error);
                }
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        parts.sort_by_key(|part: &CompletedPart| part.part_number);
        let parts = CompletedMultipartUpload::builder().set_parts(Some(parts)).build();
        self.with_retries(|| self.complete(id, parts.clone())).await
    }

    async fn send_part(
        &self,
        id: &str,
        number: i32,
        part: Bytes,
    ) -> Result<CompletedPart, RequestError> {
        let client = self.s3.client(&self.address).await.map_err(RequestError::Fatal)?;
        let request = client
            .upload_part()
            .bucket(&*self.address.bucket)
            .key(&self.address.key)
            .upload_id(id)
            .part_number(number)
            .set_request_payer(self.s3.request_payer())
            .body(ByteStream::from(part.clone()));
        let name = format!("PUT of part {number}");
        let sent = self.answer(&name, part.len(), request.send()).await?;
        let part = CompletedPart::builder()
            .part_number(number)
            .set_e_tag(sent.e_tag)
            .set_checksum_crc32(sent.checksum_crc32);
        Ok(part.build())
    }

    async fn complete(
        &self,
        id: &str,
        parts: CompletedMultipartUpload,
    ) -> Result<(), RequestError> {
        let client = self.s3.client(&self.address).await.map_err(RequestError::Fatal)?;
        let request = client
            .complete_multipart_upload()
            .bucket(&*self.address.bucket)
            .key(&self.address.key)
            .upload_id(id)
            .multipart_upload(parts)
            .set_if_match(self.condition())
            .set_request_payer(self.s3.request_payer());
        // The server puts the parts together before it answers.
        let sent = self.answer("the end of an upload", self.bytes.len(), request.send());
        sent.await.map(drop)
    }

    async fn abort(&self, id: &str) -> Result<(), RequestError> {
        let client = self.s3.client(&self.address).await.map_err(RequestError::Fatal)?;
        let request = client
            .abort_multipart_upload()
            .bucket(&*self.address.bucket)
            .key(&self.address.key)
            .upload_id(id)
            .set_request_payer(self.s3.request_payer());
        self.answer("the removal of an upload", 0, request.send()).await.map(drop)
    }

    /// The value of `If-Match`.
    fn condition(&self) -> Option<String> {
        self.replaces.clone().filter(|_| self.is_conditional.load(Ordering::Relaxed))
    }

    /// The answer to a request that sends this many bytes.
    async fn answer<T, E>(
        &self,
        request: &str,
        bytes: usize,
        sent: impl Future<Output = Result<T, SdkError<E, HttpResponse>>>,
    ) -> Result<T, RequestError>
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        let limit = self.s3.stall_timeout + Duration::from_secs(bytes as u64 / MIN_RATE);
        let answer = timeout(limit, sent).await.map_err(|_| {
            RequestError::retryable(format!("{request} had no answer for {limit:?}"))
        })?;
        let answer = answer.map_err(|error| self.failed(&error, request))?;
        self.s3.set_responded();
        Ok(answer)
    }

    fn failed<E>(&self, error: &SdkError<E, HttpResponse>, request: &str) -> RequestError
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        let status = error.raw_response().map(|response| response.status().as_u16());
        let code = error.as_service_error().and_then(|error| error.meta().code());
        let failed = RequestError::from_sdk(error, &self.address, request);
        match (status, code, failed) {
            // It knows no conditions. The ETag was compared before.
            (Some(501), ..) if self.is_conditional.swap(false, Ordering::Relaxed) => {
                RequestError::retryable(format!("{request} with If-Match was answered with 501"))
            }
            // Another writer is in the middle of a request.
            (Some(409), Some(code @ "ConditionalRequestConflict"), _) => {
                RequestError::retryable(format!("{request} was answered with 409 {code}"))
            }
            (Some(404), Some("NoSuchKey"), _) => RequestError::Changed(REMOVED.to_owned()),
            (Some(401 | 403), _, RequestError::Fatal(error)) => {
                let bucket = &self.address.bucket;
                let remedy = format!(
                    "check the credentials, and let them do s3:PutObject, s3:GetObject and \
                     s3:AbortMultipartUpload on `{bucket}/*`; nothing is written with `anonymous` \
                     unless the bucket is open to all"
                );
                RequestError::Fatal(SourceError { remedy, ..error })
            }
            (.., failed) => failed,
        }
    }

    /// Sends a request until it succeeds or is given up.
    async fn with_retries<T, F: Future<Output = Result<T, RequestError>>>(
        &self,
        send: impl Fn() -> F,
    ) -> Result<T, RequestError> {
        let mut retries = Retries::new();
        loop {
            match send().await {
                Ok(answer) => return Ok(answer),
                Err(error) => retries.pause_or_give_up(error, &self.address, &self.s3).await?,
            }
        }
    }
}

/// How an object has changed that is not there any more.
const REMOVED: &str = "it was removed";

/// The result of a part.
fn joined(
    part: Option<Result<Result<CompletedPart, RequestError>, tokio::task::JoinError>>,
) -> Result<CompletedPart, RequestError> {
    match part {
        Some(Ok(part)) => part,
        Some(Err(error)) => {
            let message = format!("a task ended unexpectedly: {error}");
            Err(RequestError::Fatal(SourceError::new("S3", message, "report this")))
        }
        // It is called for parts that were sent.
        None => Err(RequestError::retryable("a part was not sent")),
    }
}
