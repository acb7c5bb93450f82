//! Repeats failed requests with exponential backoff. A request is given up after a time without
//! progress, not after a number of tries.

use std::time::{Duration, Instant};

use super::address::Address;
use super::error::RequestError;
use super::runtime::S3Handle;
use crate::SourceError;

/// Upper limit of the first pause. The limit doubles with each try.
const INITIAL_BACKOFF: Duration = Duration::from_millis(50);
/// Upper limit of all pauses.
const MAX_BACKOFF: Duration = Duration::from_secs(5);
/// Timeout for a server that never responded successfully: most likely its address is wrong.
const NO_RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends a request until it succeeds or is given up. For requests without a partial result.
pub(super) async fn with_retries<T, F: Future<Output = Result<T, RequestError>>>(
    s3: &S3Handle,
    address: &Address,
    send: impl Fn() -> F,
) -> Result<T, SourceError> {
    let mut retries = Retries::new();
    loop {
        let error = match send().await {
            Ok(response) => return Ok(response),
            Err(error) => error,
        };
        if let Err(error) = retries.pause_or_give_up(error, address, s3).await {
            return Err(error.into_source_error(address));
        }
    }
}

/// Failed tries of one request since it last made progress.
pub(super) struct Retries {
    since: Instant,
    count: u32,
}

impl Retries {
    pub(super) fn new() -> Self {
        Self { since: Instant::now(), count: 0 }
    }

    /// Counts a failed try. Returns after a random pause if the request is to be sent again.
    ///
    /// # Errors
    /// The request is given up: the error is not retryable, or the timeout passed.
    pub(super) async fn pause_or_give_up(
        &mut self,
        error: RequestError,
        address: &Address,
        s3: &S3Handle,
    ) -> Result<(), RequestError> {
        let RequestError::Retryable { message, .. } = error else { return Err(error) };
        self.count += 1;
        let has_responded = s3.has_responded();
        let timeout = if has_responded {
            s3.retry_timeout
        } else {
            s3.retry_timeout.min(NO_RESPONSE_TIMEOUT)
        };
        if self.since.elapsed() >= timeout {
            let error = self.given_up(&message, address, timeout, has_responded);
            return Err(RequestError::Fatal(error));
        }
        log::log!(
            if self.count == 3 { log::Level::Warn } else { log::Level::Debug },
            channel = s3.channel, object:% = address, tries = self.count;
            "{address}: {message}; retrying: try {}",
            self.count + 1
        );
        let factor = 1 << self.count.min(16) >> 1;
        let backoff = INITIAL_BACKOFF.saturating_mul(factor).min(MAX_BACKOFF);
        tokio::time::sleep(backoff.mul_f64(fastrand::f64())).await;
        Ok(())
    }

    fn given_up(
        &self,
        last: &str,
        address: &Address,
        timeout: Duration,
        has_responded: bool,
    ) -> SourceError {
        let tries = self.count;
        let message = format!("no byte came in {tries} tries over {timeout:?}; the last: {last}");
        let remedy = if last.contains("invalid peer certificate") {
            "install the certificates that this machine is to trust (Debian: `ca-certificates`), \
             or name a file with them in AWS_CA_BUNDLE"
        } else if has_responded {
            "see whether the server is well, or raise `retry_timeout`"
        } else {
            "no request to this server ever went well: check `endpoint`, `region`, and that this \
             machine reaches it"
        };
        SourceError::new(address.to_string(), message, remedy)
    }
}
