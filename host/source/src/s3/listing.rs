//! Lists the objects that a channel would read in an epoch, without reading them.

use std::sync::Arc;

use super::list_progress::ListProgress;
use super::plan::{Plan, Planner};
use super::runtime::S3Runtime;
use super::settings::Settings;
use super::wait::wait;
use super::window::ReadWindow;
use crate::wait::WaitOutcome;
use crate::{SourceError, Start, Stop, TotalSize};

/// An object that a channel would read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedObject {
    /// URL, as in messages; for a line of an augmented manifest the manifest's URL and the line.
    pub name: String,
    /// Stored size in bytes.
    pub size: u64,
    /// Identifies its content: see [`ListIdentity`](pipemill_types::ListIdentity).
    pub identity: String,
}

/// Calls `visit` with each object that a channel would read in an epoch, in the epoch's order.
/// Returns early if `visit` returns false or a stop is requested.
///
/// # Errors
/// The objects can't be listed, or an object in a manifest can't be found.
pub fn list_objects(
    s3: &Arc<S3Runtime>,
    settings: &Settings,
    epoch: u32,
    stop: &Stop,
    mut visit: impl FnMut(ListedObject) -> bool,
) -> Result<(), SourceError> {
    let settings = Arc::new(Settings { verify: false, ..settings.clone() });
    let planner = Planner {
        s3: Arc::new(s3.handle(&settings)),
        window: ReadWindow::new(s3.budget.clone(), settings.part_size, settings.concurrency),
        settings,
        total_size: TotalSize::default(),
        list_slot: None,
        is_cached: Arc::default(),
    };
    let list = Arc::new(ListProgress::new(None));
    let mut plan =
        s3.tokio().block_on(async { Plan::start(planner, Start::of_epoch(epoch), list) });
    loop {
        let mut next = Box::pin(plan.next());
        match wait(s3.tokio(), stop, None, |cx| next.as_mut().poll(cx)) {
            WaitOutcome::Ready(Some(planned)) => {
                let planned = planned?;
                let (size, identity) = (planned.size(), planned.identity());
                if !visit(ListedObject { name: planned.name, size, identity }) {
                    return Ok(());
                }
            }
            WaitOutcome::Ready(None) | WaitOutcome::Stopped | WaitOutcome::TimedOut => {
                return Ok(());
            }
        }
    }
}
