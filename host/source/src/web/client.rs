//! Sends GET requests, follows their redirects, and limits what is read of answers.

use std::time::Duration;

use aws_smithy_http_client::Connector;
use aws_smithy_runtime_api::client::http::HttpConnector;
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use http_body_util::BodyExt;
use pipemill_types::printable;
use tokio::time::timeout;
use url::Url;

use super::WebError;
use crate::s3::{causes, connector};

/// A server that sends no byte for this time is given up.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Redirects that are followed.
const MAX_REDIRECTS: usize = 5;

/// The name of the header for credentials: they are for one server only.
pub(super) const AUTHORIZATION: &str = "authorization";

/// Sends requests through the proxy of the environment, and trusts the certificates that S3's
/// requests trust.
pub(super) struct Client {
    connector: Connector,
}

/// The answer to a request.
pub(super) struct Answer {
    response: HttpResponse,
}

impl Client {
    pub(super) fn new() -> Result<Self, WebError> {
        let connector = connector().map_err(|why| WebError::new(why, ""))?;
        Ok(Self { connector })
    }

    /// Sends a request with these headers, and follows redirects. Credentials go to no other
    /// server than that of `url`, and nothing that began encrypted goes on without encryption.
    pub(super) async fn get(
        &self,
        url: &Url,
        headers: &[(&'static str, String)],
    ) -> Result<Answer, WebError> {
        let mut at = url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let is_same = at.origin() == url.origin();
            let allowed = headers.iter().filter(|(name, _)| is_same || *name != AUTHORIZATION);
            let answer = self.send(&at, allowed).await?;
            let Some(location) = answer.redirect() else { return Ok(answer) };
            let to = at.join(location).ok().filter(is_web).ok_or_else(|| {
                let message = format!("redirects to {}, which is no address", printable(location));
                WebError::new(message, "give the address of the file itself")
            })?;
            if at.scheme() == "https" && to.scheme() != "https" {
                let message = "redirects from https:// to http://, which is not followed";
                return Err(WebError::new(message, "give the address of the file itself"));
            }
            at = to;
        }
        let message = format!("redirects more than {MAX_REDIRECTS} times");
        Err(WebError::new(message, "give the address of the file itself"))
    }

    async fn send(
        &self,
        url: &Url,
        headers: impl Iterator<Item = &(&'static str, String)>,
    ) -> Result<Answer, WebError> {
        let invalid = |_| WebError::new("is no valid address", "correct it");
        let mut request = HttpRequest::get(without_fragment(url)).map_err(invalid)?;
        let all = request.headers_mut();
        all.insert("user-agent", concat!("pipemill/", env!("CARGO_PKG_VERSION")));
        for (name, value) in headers {
            let refused = |_| WebError::new("has a header that can't be sent", "");
            all.try_insert(*name, value.clone()).map_err(refused)?;
        }
        let sent = timeout(STALL_TIMEOUT, self.connector.call(request)).await;
        let sent = sent.map_err(|_| stalled())?;
        let response = sent.map_err(|why| {
            let why = format!("can't be reached: {}", printable(&causes(&why)));
            WebError::new(why, "check the address, the network, and the proxy in HTTPS_PROXY")
        })?;
        Ok(Answer { response })
    }
}

impl Answer {
    pub(super) fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    pub(super) fn header(&self, name: &'static str) -> Option<&str> {
        self.response.headers().get(name)
    }

    /// The address to which it redirects.
    fn redirect(&self) -> Option<&str> {
        let redirects = matches!(self.status(), 301 | 302 | 303 | 307 | 308);
        self.header("location").filter(|_| redirects)
    }

    /// Refuses all answers but that with the file.
    pub(super) fn check(self) -> Result<Self, WebError> {
        let remedy = match self.status() {
            200 => return Ok(self),
            401 | 403 => "only public files are read: download it, and give its path",
            404 | 410 => "check the address",
            _ => "try again later",
        };
        let message = format!("the server answered with status {}", self.status());
        let missing = matches!(self.status(), 404 | 410);
        Err(WebError { missing, ..WebError::new(message, remedy) })
    }

    /// Reads the body, of at most `max_bytes` bytes.
    pub(super) async fn body(self, max_bytes: u64) -> Result<Vec<u8>, WebError> {
        let too_long = |has: &str| {
            WebError::new(
                format!("has {has} bytes; at most {max_bytes} are read"),
                "check the address",
            )
        };
        let length = self.header("content-length").and_then(|text| text.parse::<u64>().ok());
        if let Some(length) = length.filter(|length| *length > max_bytes) {
            return Err(too_long(&length.to_string()));
        }
        let mut body = self.response.into_body();
        let mut bytes = Vec::new();
        loop {
            let frame = timeout(STALL_TIMEOUT, body.frame()).await.map_err(|_| stalled())?;
            let Some(frame) = frame else { break };
            let frame = frame.map_err(|why| {
                let why = printable(&why.to_string());
                let message = format!("the answer broke off after {} bytes: {why}", bytes.len());
                WebError::new(message, "try again")
            })?;
            let Some(data) = frame.data_ref() else { continue };
            if (bytes.len() + data.len()) as u64 > max_bytes {
                return Err(too_long(&format!("more than {max_bytes}")));
            }
            bytes.extend_from_slice(data);
        }
        match length {
            Some(length) if length != bytes.len() as u64 => {
                let message = format!("the answer ended after {} of {length} bytes", bytes.len());
                Err(WebError::new(message, "try again"))
            }
            _ => Ok(bytes),
        }
    }
}

/// Whether an address is one that can be requested.
fn is_web(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https") && url.host().is_some()
}

/// The address without what is for the client alone.
fn without_fragment(url: &Url) -> String {
    let mut url = url.clone();
    url.set_fragment(None);
    url.into()
}

fn stalled() -> WebError {
    WebError::new(format!("the server sent nothing for {STALL_TIMEOUT:?}"), "try again")
}
