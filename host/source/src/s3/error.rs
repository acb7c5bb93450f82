//! What can go wrong with a request, and what that means: ask again, the object is another one now, or never.

use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};

use super::Address;
use crate::SourceError;

/// What a request that failed means.
#[derive(Debug, Clone)]
pub(super) enum Trouble {
    /// It may go well the next time.
    Again {
        /// What happened.
        what: String,
        /// The server wants fewer requests.
        slow: bool,
    },
    /// The object is not the one any more that was begun.
    Changed(String),
    /// It will never go well.
    Never(SourceError),
}

impl Trouble {
    pub(super) fn again(what: impl Into<String>) -> Self {
        Self::Again { what: what.into(), slow: false }
    }

    /// Says what a failed request about this address means; `asked` is what it asked for.
    pub(super) fn of<E>(error: &SdkError<E, HttpResponse>, address: &Address, asked: &str) -> Self
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        let Some(response) = error.raw_response() else {
            return Self::without_answer(error, address, asked);
        };
        let status = response.status().as_u16();
        let meta = error.as_service_error().map(ProvideErrorMetadata::meta);
        let code = meta.and_then(|meta| meta.code()).unwrap_or_default();
        let said = meta.and_then(|meta| meta.message()).unwrap_or_default();
        let what = described(status, code, said, asked);
        if code == "SlowDown" || status == 429 || status == 503 {
            return Self::Again { what, slow: true };
        }
        let unable = matches!(status, 501 | 505);
        if status >= 500 && !unable || matches!(code, "RequestTimeout" | "OperationAborted") {
            return Self::again(what);
        }
        // A status of 2xx here: the answer could not be read.
        if status < 300 {
            let why = causes(error);
            return Self::again(format!("{asked} was answered with what can't be read: {why}"));
        }
        if status == 412 {
            return Self::Changed("its ETag is another one now".to_owned());
        }
        if status == 416 {
            return Self::Changed("it is shorter now".to_owned());
        }
        let region = response.headers().get("x-amz-bucket-region");
        let remedy = remedy(status, code, region, address);
        let missing = status == 404;
        Self::Never(SourceError { missing, ..SourceError::new(address.to_string(), what, remedy) })
    }

    fn without_answer<E>(error: &SdkError<E, HttpResponse>, address: &Address, asked: &str) -> Self
    where
        E: std::error::Error + 'static,
    {
        let why = format!("{asked} failed: {}", causes(error));
        match error {
            SdkError::ConstructionFailure(_) => {
                let remedy = "see `region`, `endpoint` and the bucket's name";
                Self::Never(SourceError::new(address.to_string(), why, remedy))
            }
            _ => Self::again(why),
        }
    }
}

/// An error and what it came from, in one line.
pub(super) fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        // Some say again what they come from.
        if !text.ends_with(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

fn described(status: u16, code: &str, said: &str, asked: &str) -> String {
    let code = if code.is_empty() { String::new() } else { format!(" {code}") };
    let said = if said.is_empty() { String::new() } else { format!(" ({said})") };
    format!("{asked} was answered with {status}{code}{said}")
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
            "check the credentials, and let them do s3:GetObject on `{bucket}/*` and s3:ListBucket on `{bucket}`; for a \
             public bucket set `anonymous`, for one whose reader pays `requester_pays`"
        ),
        (400, _) => "check the bucket's name, the key, `region` and `endpoint`".to_owned(),
        (501 | 505, _) => {
            "the server can't do what was asked: see its documentation, and check `endpoint`; where it knows no \
             signatures, set `anonymous`"
                .to_owned()
        }
        _ => "see the server's documentation of this code".to_owned(),
    }
}

impl Trouble {
    /// What a person is told.
    pub(super) fn into_error(self, address: &Address) -> SourceError {
        match self {
            Self::Never(error) => error,
            Self::Again { what, .. } => SourceError::new(address.to_string(), what, ""),
            Self::Changed(what) => {
                let message = format!("changed while it was read: {what}");
                let remedy = "write new data under new keys and read those, or read a fixed version; \
                              `on_change = \"restart-object\"` takes the new state as long as none of its bytes \
                              has been decoded";
                SourceError::new(address.to_string(), message, remedy)
            }
        }
    }
}
