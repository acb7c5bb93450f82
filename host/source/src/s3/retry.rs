//! When to ask again, and when to give up: after a time without progress, not after so many tries.

use std::time::{Duration, Instant};

use super::error::Trouble;
use super::{Address, S3Handle};
use crate::SourceError;

/// The first pause is at most so long, each further one at most twice as long as the one before.
const FIRST: Duration = Duration::from_millis(50);
/// No pause is longer.
const LONGEST: Duration = Duration::from_secs(5);
/// A server with which nothing ever went well is most likely a wrong address.
const UNKNOWN: Duration = Duration::from_secs(10);

/// Makes the same request until it goes well or is given up: one whose answer comes whole or not at all.
pub(super) async fn until_answered<T, F: Future<Output = Result<T, Trouble>>>(
    reach: &S3Handle,
    address: &Address,
    ask: impl Fn() -> F,
) -> Result<T, SourceError> {
    let mut tries = Tries::new();
    loop {
        let trouble = match ask().await {
            Ok(answer) => return Ok(answer),
            Err(trouble) => trouble,
        };
        if let Err(trouble) = tries.failed(trouble, address, reach).await {
            return Err(trouble.into_error(address));
        }
    }
}

/// The tries of one request since it last made progress.
pub(super) struct Tries {
    since: Instant,
    count: u32,
}

impl Tries {
    pub(super) fn new() -> Self {
        Self { since: Instant::now(), count: 0 }
    }

    /// Deals with a failed try: pauses, for a random part of a time that grows, if it is worth another one.
    pub(super) async fn failed(
        &mut self,
        trouble: Trouble,
        address: &Address,
        reach: &S3Handle,
    ) -> Result<(), Trouble> {
        let Trouble::Again { what, .. } = trouble else { return Err(trouble) };
        self.count += 1;
        let known = reach.answered();
        let patience = if known { reach.retry_timeout } else { reach.retry_timeout.min(UNKNOWN) };
        if self.since.elapsed() >= patience {
            return Err(Trouble::Never(self.given_up(&what, address, patience, known)));
        }
        log::log!(
            if self.count == 3 { log::Level::Warn } else { log::Level::Debug },
            channel = reach.channel, object:% = address, tries = self.count;
            "{address}: {what}; retrying: try {}",
            self.count + 1
        );
        let most = FIRST.saturating_mul(1 << self.count.min(16) >> 1).min(LONGEST);
        tokio::time::sleep(most.mul_f64(fastrand::f64())).await;
        Ok(())
    }

    fn given_up(
        &self,
        what: &str,
        address: &Address,
        patience: Duration,
        known: bool,
    ) -> SourceError {
        let tries = self.count;
        let message = format!("no byte came in {tries} tries over {patience:?}; the last: {what}");
        let remedy = if what.contains("invalid peer certificate") {
            "install the certificates that this machine is to trust (Debian: `ca-certificates`), or name a file with \
             them in AWS_CA_BUNDLE"
        } else if known {
            "see whether the server is well, or raise `retry_timeout`"
        } else {
            "no request to this server ever went well: check `endpoint`, `region`, and that this machine reaches it"
        };
        SourceError::new(address.to_string(), message, remedy)
    }
}
