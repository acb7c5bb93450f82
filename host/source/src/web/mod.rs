//! Reads one file of the web as a whole: by HTTPS, by HTTP, or from a registry of container images.
//! It is for small files that a person asks for, such as plugins, and no source of records.
//!
//! - `client`: sends requests, follows redirects and limits bodies.
//! - `registry`: finds the file of an artifact in a registry.

mod client;
mod registry;

use url::Url;

use crate::SourceError;
use client::Client;
pub use registry::Artifact;

/// Reads the file at an `https://` or `http://` address, of at most `max_bytes` bytes.
///
/// # Errors
/// The server can't be reached, refuses, or has more bytes.
pub fn download(url: &Url, max_bytes: u64) -> Result<Vec<u8>, SourceError> {
    block_on(url.as_str(), async {
        let client = Client::new()?;
        let answer = client.get(url, &[]).await?.check()?;
        answer.body(max_bytes).await
    })
}

/// Reads the WebAssembly file of an artifact in a registry, of at most `max_bytes` bytes.
///
/// # Errors
/// As [`download`], or the artifact has no such file, or its bytes don't have the digest that the
/// artifact names.
pub fn download_artifact(artifact: &Artifact, max_bytes: u64) -> Result<Vec<u8>, SourceError> {
    block_on(&artifact.to_string(), registry::read(artifact, max_bytes))
}

/// Runs the requests for this address in this thread. An error is about the address.
fn block_on<T>(
    address: &str,
    requests: impl Future<Output = Result<T, WebError>>,
) -> Result<T, SourceError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = runtime.map_err(|why| WebError::new(format!("can't start: {why}"), ""));
    let done = done.and_then(|runtime| runtime.block_on(requests));
    done.map_err(|error| {
        let WebError { message, remedy, missing } = error;
        SourceError { missing, ..SourceError::new(address, message, remedy) }
    })
}

/// Why a file of the web can't be read.
#[derive(Debug)]
struct WebError {
    message: String,
    remedy: &'static str,
    missing: bool,
}

impl WebError {
    fn new(message: impl Into<String>, remedy: &'static str) -> Self {
        Self { message: message.into(), remedy, missing: false }
    }
}
