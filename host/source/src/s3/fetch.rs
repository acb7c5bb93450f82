//! Fetches a range of one object. After an error it continues at the next missing byte, and it
//! accepts only bytes of the same state of the object.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_s3::config::http::HttpRequest;
use aws_sdk_s3::operation::get_object::GetObjectOutput;
use bytes::Bytes;
use pipemill_types::printable;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::timeout;

use super::checksum::{Checksum, ChecksumHeaders};
use super::error::{RequestError, causes};
use super::pace::Pace;
use super::retry::Retries;
use super::runtime::S3Handle;
use super::target::{Target, bare_etag};
use super::window::ReadWindow;
use crate::SourceError;

/// Fetches ranges of one object.
pub(super) struct Fetch {
    pub(super) s3: Arc<S3Handle>,
    pub(super) window: Arc<ReadWindow>,
    pub(super) target: Arc<Target>,
    pub(super) verify: bool,
}

/// Takes fetched bytes, in their order.
pub(super) trait FrameSink: Send {
    /// Takes the next bytes. Returns whether more are wanted.
    fn frame(&mut self, bytes: Bytes) -> impl Future<Output = bool> + Send;

    /// Takes the error that ends the bytes.
    fn fail(&mut self, error: RequestError);
}

impl<T: From<Bytes> + Send> FrameSink for UnboundedSender<Result<T, RequestError>> {
    async fn frame(&mut self, bytes: Bytes) -> bool {
        self.send(Ok(bytes.into())).is_ok()
    }

    fn fail(&mut self, error: RequestError) {
        // A closed receiver means that the part is no longer needed.
        let _ = self.send(Err(error));
    }
}

impl Fetch {
    /// Fetches the range. If that fails, the error is the last that the sink takes. Returns whether
    /// the sink has taken all bytes.
    pub(super) async fn range(&self, range: Range<u64>, sink: &mut impl FrameSink) -> bool {
        let mut offset = range.start;
        let mut retries = Retries::new();
        let mut pace = Pace::new(self.s3.retry_timeout, self.s3.stall_timeout);
        loop {
            let before = offset;
            let error = match self.try_range(&mut offset, range.end, sink, &mut pace).await {
                Ok(()) => {
                    self.window.request_succeeded();
                    return offset == range.end;
                }
                // Its ETag is known from a list or from an answer.
                Err(error) if self.target.etag().is_some() => error.after_listed(),
                Err(error) => error,
            };
            if offset > before {
                retries = Retries::new();
            }
            if matches!(error, RequestError::Retryable { slow_down: true, .. }) {
                self.window.slow_down();
            }
            let pause = retries.pause_or_give_up(error, &self.target.address, &self.s3).await;
            if let Err(error) = pause {
                sink.fail(error);
                return false;
            }
        }
    }

    /// Sends one request for the bytes from `offset` to `end`, and advances `offset` as they
    /// arrive.
    async fn try_range(
        &self,
        offset: &mut u64,
        end: u64,
        sink: &mut impl FrameSink,
        pace: &mut Pace,
    ) -> Result<(), RequestError> {
        let (start, stall) = (*offset, self.s3.stall_timeout);
        let request = || format!("GET of bytes {start} to {end}");
        let response = timeout(stall, self.send_get(start, end))
            .await
            .map_err(|_| {
                RequestError::retryable(format!("{} had no answer for {stall:?}", request()))
            })?
            .map_err(|describe| describe(&request()))?;
        self.s3.set_responded();
        self.check_response(&response, start, end)?;
        let has_length = response.content_length().is_some();
        let mut body = response.body;
        while *offset < end {
            let frame = timeout(stall, body.next()).await;
            let frame = frame.map_err(|_| body_error(*offset, end, &no_byte_for(stall)))?;
            let Some(frame) = frame else {
                return Err(body_error(*offset, end, "it ended early"));
            };
            let bytes =
                frame.map_err(|error| body_error(*offset, end, &printable(&causes(&error))))?;
            if bytes.len() as u64 > end - *offset {
                return Err(body_error(*offset, end, "more bytes came than were requested"));
            }
            *offset += bytes.len() as u64;
            let slow = pace.received(bytes.len());
            if *offset < end {
                slow.map_err(|slow| self.too_slow(*offset, end, &slow))?;
            }
            if !bytes.is_empty() && !sink.frame(bytes).await {
                return Ok(());
            }
        }
        if !has_length && let Ok(Some(Ok(_))) = timeout(stall, body.next()).await {
            let message = format!("more than its bytes {start} to {end} came");
            return Err(RequestError::Changed(message));
        }
        Ok(())
    }

    async fn send_get(&self, start: u64, end: u64) -> Result<GetObjectOutput, DescribeError> {
        let target = &self.target;
        let client = self.s3.client(&target.address).await;
        let client = client.map_err(|error| {
            Box::new(move |_: &str| RequestError::Fatal(error)) as DescribeError
        })?;
        let mut request = client
            .get_object()
            .bucket(&*target.address.bucket)
            .key(&target.address.key)
            .set_version_id(target.address.version.clone())
            .set_if_match(target.etag().cloned())
            .set_request_payer(self.s3.request_payer());
        if (start, end) != (0, target.size) {
            request = request.range(format!("bytes={start}-{}", end - 1));
        }
        let address = target.address.clone();
        let sent = request.customize().mutate_request(request_checksum).send().await;
        sent.map_err(|error| {
            Box::new(move |request: &str| RequestError::from_sdk(&error, &address, request))
                as DescribeError
        })
    }

    /// Compares the response's headers with the request, and pins the target to them.
    fn check_response(
        &self,
        response: &GetObjectOutput,
        start: u64,
        end: u64,
    ) -> Result<(), RequestError> {
        let target = &self.target;
        let is_part = (start, end) != (0, target.size);
        let etag = response.e_tag().filter(|etag| !bare_etag(etag).is_empty());
        if etag.is_none() {
            self.check_without_etag(start, end)?;
        }
        target.pin(etag, response.content_encoding())?;
        let Some(range) = response.content_range() else {
            let length = response.content_length().map(|length| length as u64);
            if length.is_some_and(|length| length != target.size) {
                return Err(size_changed(target.size, length.unwrap_or_default()));
            }
            if is_part {
                let message = "the server sent the whole object instead of the requested range";
                let remedy = "use a server that knows ranges";
                return Err(RequestError::Fatal(self.error(message, remedy)));
            }
            if self.verify
                && let Some(checksum) = Checksum::from_headers(&checksum_headers(response))
            {
                let _ = target.checksum.set(checksum);
            }
            return Ok(());
        };
        match parse_content_range(range) {
            Some((_, _, Some(size))) if size != target.size => Err(size_changed(target.size, size)),
            Some((first, last, _)) if (first, last + 1) == (start, end) => Ok(()),
            _ => {
                let range = printable(range);
                let message =
                    format!("bytes {start} to {end} were requested, but the server sent `{range}`");
                Err(RequestError::Fatal(self.error(&message, "use a server that knows ranges")))
            }
        }
    }

    /// Whether an answer may have no ETag: if it is the only one of an object that has none.
    fn check_without_etag(&self, start: u64, end: u64) -> Result<(), RequestError> {
        let why = match self.target.etag() {
            Some(etag) => format!("the object's is {}", printable(etag)),
            None if (start, end) == (0, self.target.size) => return Ok(()),
            None => "nothing else shows that all parts are of the same object".to_owned(),
        };
        let message = format!("the answer for bytes {start} to {end} has no ETag, and {why}");
        let remedy = "use a server that sends ETags, or a `part_size` larger than the objects";
        Err(RequestError::Fatal(self.error(&message, remedy)))
    }

    fn too_slow(&self, offset: u64, end: u64, slow: &str) -> RequestError {
        let message = format!("its bytes come too slowly, at byte {offset} of {end}: {slow}");
        let remedy = "see whether the server and the way to it are well; a smaller `concurrency` \
                      leaves more to each request";
        RequestError::Fatal(self.error(&message, remedy))
    }

    fn error(&self, message: &str, remedy: &str) -> SourceError {
        SourceError::new(self.target.address.to_string(), message, remedy)
    }
}

/// Makes a [`RequestError`] of an SDK error and of the request's description, which is formatted
/// only if there is an error.
type DescribeError = Box<dyn FnOnce(&str) -> RequestError + Send>;

/// Requests the stored checksum. The SDK's own option is not used: it also verifies, and compares
/// the checksum of the whole object with the bytes of a range.
fn request_checksum(request: &mut HttpRequest) {
    request.headers_mut().insert("x-amz-checksum-mode", "ENABLED");
}

fn no_byte_for(stall: Duration) -> String {
    format!("no byte came for {stall:?}")
}

fn body_error(offset: u64, end: u64, reason: &str) -> RequestError {
    RequestError::retryable(format!("the body broke off at byte {offset} of {end}: {reason}"))
}

fn size_changed(before: u64, now: u64) -> RequestError {
    RequestError::Changed(format!("it had {before} bytes and has {now} now"))
}

/// Parses `bytes FIRST-LAST/SIZE`. The size may be `*`.
fn parse_content_range(text: &str) -> Option<(u64, u64, Option<u64>)> {
    let (range, size) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    Some((
        first.parse().ok()?,
        last.parse().ok().filter(|last| *last < u64::MAX)?,
        size.parse().ok(),
    ))
}

fn checksum_headers(response: &GetObjectOutput) -> ChecksumHeaders<'_> {
    ChecksumHeaders {
        crc32: response.checksum_crc32(),
        crc32c: response.checksum_crc32_c(),
        crc64nvme: response.checksum_crc64_nvme(),
        sha256: response.checksum_sha256(),
        kind: response.checksum_type(),
        etag: response.e_tag(),
    }
}
