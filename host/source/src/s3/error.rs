//! Errors of requests: which ones are retried, and their messages for people.

use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use pipemill_types::printable;

use super::address::Address;
use super::limit::is_body_too_long;
use crate::SourceError;

/// Why a request failed.
#[derive(Debug, Clone)]
pub(super) enum RequestError {
    /// The same request may succeed later.
    Retryable {
        message: String,
        /// Whether the server asks for fewer requests.
        slow_down: bool,
    },
    /// The object has changed since its target was pinned; says how.
    Changed(String),
    /// The same request can't succeed.
    Fatal(SourceError),
}

impl RequestError {
    pub(super) fn retryable(message: impl Into<String>) -> Self {
        Self::Retryable { message: message.into(), slow_down: false }
    }

    /// Classifies an error of the SDK. `request` describes the request in the message.
    pub(super) fn from_sdk<E>(
        error: &SdkError<E, HttpResponse>,
        address: &Address,
        request: &str,
    ) -> Self
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        let Some(response) = error.raw_response() else {
            return Self::without_response(error, address, request);
        };
        let status = response.status().as_u16();
        let meta = error.as_service_error().map(ProvideErrorMetadata::meta);
        let code = &*printable(meta.and_then(|meta| meta.code()).unwrap_or_default());
        let detail = printable(meta.and_then(|meta| meta.message()).unwrap_or_default());
        let message = describe(status, code, &detail, request);
        if code == "SlowDown" || status == 429 || status == 503 {
            return Self::Retryable { message, slow_down: true };
        }
        let unsupported = matches!(status, 501 | 505);
        if status >= 500 && !unsupported || matches!(code, "RequestTimeout" | "OperationAborted") {
            return Self::retryable(message);
        }
        // The status is a success, so the body of the response was malformed.
        if status < 300 {
            let reason = printable(&causes(error));
            let message = format!("{request} was answered with what can't be read: {reason}");
            if is_body_too_long(error) {
                let address = address.to_string();
                return Self::Fatal(SourceError::new(address, message, "use another server"));
            }
            return Self::retryable(message);
        }
        if status == 412 {
            return Self::Changed("its ETag is another one now".to_owned());
        }
        if status == 416 {
            return Self::Changed("it is shorter now".to_owned());
        }
        let region = response.headers().get("x-amz-bucket-region").map(printable);
        let remedy = remedy(status, code, region.as_deref(), address);
        let missing = status == 404;
        let error = SourceError::new(address.to_string(), message, remedy);
        Self::Fatal(SourceError { missing, ..error })
    }

    fn without_response<E>(
        error: &SdkError<E, HttpResponse>,
        address: &Address,
        request: &str,
    ) -> Self
    where
        E: std::error::Error + 'static,
    {
        let message = format!("{request} failed: {}", printable(&causes(error)));
        match error {
            SdkError::ConstructionFailure(_) => {
                let remedy = "see `region`, `endpoint` and the bucket's name";
                Self::Fatal(SourceError::new(address.to_string(), message, remedy))
            }
            _ => Self::retryable(message),
        }
    }
}

/// An error and its causes.
pub(crate) fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        // Some errors repeat the text of their cause.
        if !text.ends_with(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

fn describe(status: u16, code: &str, detail: &str, request: &str) -> String {
    let code = if code.is_empty() { String::new() } else { format!(" {code}") };
    let detail = if detail.is_empty() { String::new() } else { format!(" ({detail})") };
    format!("{request} was answered with {status}{code}{detail}")
}

fn remedy(status: u16, code: &str, region: Option<&str>, address: &Address) -> String {
    let bucket = &address.bucket;
    match (status, code) {
        (_, "NoSuchBucket") => format!("check the bucket's name, `{bucket}`, and `endpoint`"),
        (_, "NoSuchVersion") => "check the version's id".to_owned(),
        (404, _) => "check the bucket's name and the key".to_owned(),
        (_, "ExpiredToken" | "TokenRefreshRequired" | "InvalidToken") => {
            "the credentials have expired: renew them, or use a source that renews them by itself"
                .to_owned()
        }
        (_, "InvalidAccessKeyId" | "SignatureDoesNotMatch") => {
            "check the credentials, and `endpoint` if the server is not Amazon's".to_owned()
        }
        (_, "RequestTimeTooSkewed") => "set this machine's clock".to_owned(),
        (_, "InvalidObjectState") => "it is archived: restore it first".to_owned(),
        (301 | 307 | 308 | 400, _) if region.is_some() => {
            let region = region.unwrap_or_default();
            format!("the bucket is in {region}: set region = \"{region}\"")
        }
        (401 | 403, _) => format!(
            "check the credentials, and let them do s3:GetObject on `{bucket}/*` and \
             s3:ListBucket on `{bucket}`; for a public bucket set `anonymous`, for one whose \
             reader pays `requester_pays`"
        ),
        (400, _) => "check the bucket's name, the key, `region` and `endpoint`".to_owned(),
        (501 | 505, _) => {
            "the server can't do what was asked: see its documentation, and check `endpoint`; \
             where it knows no signatures, set `anonymous`"
                .to_owned()
        }
        _ => "see the server's documentation of this code".to_owned(),
    }
}

impl RequestError {
    /// The same, for an object that was there when it was listed.
    pub(super) fn after_listed(self) -> Self {
        match self {
            Self::Fatal(error) if error.missing => {
                let message = format!("{}, but it was there when it was listed", error.message);
                let remedy = "don't remove objects while a run reads them: bring it back, or \
                              begin a new run; with an index, make the index again";
                Self::Fatal(SourceError { message, remedy: remedy.to_owned(), ..error })
            }
            other => other,
        }
    }

    /// The error for people. A fatal error keeps its own address.
    pub(super) fn into_source_error(self, address: &Address) -> SourceError {
        match self {
            Self::Fatal(error) => error,
            Self::Retryable { message, .. } => SourceError::new(address.to_string(), message, ""),
            Self::Changed(change) => {
                let message = format!("changed while it was read: {change}");
                let remedy = "write new data under new keys and read those, or read a fixed \
                              version; `on_change = \"restart-object\"` takes the new state as \
                              long as none of its bytes has been decoded, and `list = \
                              \"epoch\"` lists a prefix again for each epoch";
                SourceError::new(address.to_string(), message, remedy)
            }
        }
    }
}
