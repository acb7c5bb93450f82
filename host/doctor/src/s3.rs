//! Asks S3 for the first object of each source, for a limited time.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use pipemill_source::Stop;
use pipemill_source::s3::{LazyS3Runtime, S3Runtime, Settings, list_objects};

use super::facts::{Listed, S3Source};

/// Time limit for all requests for one source, including those for credentials.
const LIMIT: Duration = Duration::from_secs(20);
/// Time limit for one request, and for its repetitions.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);

/// Asks for each of these sources, by its name.
pub(super) fn probe_all(sources: Vec<(String, Settings)>) -> Vec<S3Source> {
    let mut runtime = LazyS3Runtime::new(None);
    let probe = |(name, settings): (String, Settings)| {
        let outcome = match runtime.get() {
            Ok(runtime) => probe(&runtime, settings, LIMIT),
            Err(error) => Listed::Failed(format!("can't start: {error}")),
        };
        S3Source { name, outcome }
    };
    sources.into_iter().map(probe).collect()
}

fn probe(runtime: &Arc<S3Runtime>, mut settings: Settings, limit: Duration) -> Listed {
    settings.retry_timeout = settings.retry_timeout.min(REQUEST_LIMIT);
    settings.stall_timeout = settings.stall_timeout.min(REQUEST_LIMIT);
    let stop = match Stop::new() {
        Ok(stop) => stop,
        Err(error) => return Listed::Failed(format!("can't start: {error}")),
    };
    let (done, waits) = mpsc::channel::<()>();
    let timer = stop.clone();
    thread::spawn(move || {
        if let Err(mpsc::RecvTimeoutError::Timeout) = waits.recv_timeout(limit) {
            timer.request();
        }
    });
    let mut first = None;
    let listed = list_objects(runtime, &settings, 0, &stop, |object| {
        first = Some(object);
        false
    });
    drop(done);
    match (listed, first) {
        (Err(error), _) => Listed::Failed(error.in_full()),
        (Ok(()), Some(object)) => Listed::First(object.name, object.size),
        (Ok(()), None) if stop.is_requested() => Listed::TimedOut(limit),
        (Ok(()), None) => Listed::Nothing,
    }
}
