//! Starts requests in the order in which their bytes will be read, object by object and epoch by
//! epoch, as far ahead of the reader as the [`ReadWindow`](super::window::ReadWindow) allows.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use pipemill_types::ObjectFacts;
use tokio::sync::{mpsc, oneshot};

use super::error::RequestError;
use super::fetch::Fetch;
use super::plan::{Plan, PlannedObject, PlannedPiece, Planner};
use super::runtime::Task;
use super::target::Target;
use super::window::{RequestPermit, Reservation};
use crate::SourceError;

/// Objects that may wait for their reader. This bounds objects without bytes, which take no room in
/// the window.
pub(super) const MAX_QUEUED_OBJECTS: usize = 4_096;

/// What the prefetch task sends to the channel's thread, in order.
pub(super) enum PrefetchEvent {
    /// An object whose bytes are requested.
    Object { epoch: u32, name: String, facts: ObjectFacts, pieces: Vec<PrefetchedPiece> },
    /// The epoch has ended.
    EpochEnd(u32),
    /// The prefetch ended with an error.
    Failed(SourceError),
    /// The last epoch has ended.
    End,
}

/// One piece of an object.
pub(super) enum PrefetchedPiece {
    /// A value of an augmented manifest.
    Text(Bytes),
    Object {
        target: Arc<Target>,
        parts: mpsc::UnboundedReceiver<Part>,
    },
}

/// One requested part of an object. Dropping it aborts its request.
pub(super) struct Part {
    /// The part's bytes in order. An error is the last item.
    pub(super) frames: mpsc::UnboundedReceiver<Result<Bytes, RequestError>>,
    /// The part's bytes in the window.
    pub(super) reservation: Reservation,
    /// Its receiver sees by the drop that the part was read.
    pub(super) _dropped: Option<oneshot::Sender<()>>,
    _task: Task<()>,
}

/// Prefetches these epochs. Returns early if the receiver is closed.
pub(super) async fn prefetch(
    planner: Planner,
    epochs: Range<u32>,
    events: mpsc::Sender<PrefetchEvent>,
) {
    for epoch in epochs {
        let mut plan = Plan::start(planner.clone(), epoch);
        while let Some(planned) = plan.next().await {
            let planned = match planned {
                Err(error) => {
                    // The task ends here, whether or not the error is received.
                    let _ = events.send(PrefetchEvent::Failed(error)).await;
                    return;
                }
                Ok(planned) => planned,
            };
            if start_object(&planner, planned, epoch, &events).await.is_err() {
                return;
            }
        }
        if events.send(PrefetchEvent::EpochEnd(epoch)).await.is_err() {
            return;
        }
    }
    let _ = events.send(PrefetchEvent::End).await;
}

/// The channel's thread has closed its receiver.
struct ReceiverClosed;

/// Sends an object, and starts the requests for its parts as the window allows.
async fn start_object(
    planner: &Planner,
    planned: PlannedObject,
    epoch: u32,
    events: &mpsc::Sender<PrefetchEvent>,
) -> Result<(), ReceiverClosed> {
    let facts = match &planned.pieces[..] {
        [PlannedPiece::Object(target)] => target.facts(),
        _ => ObjectFacts::default(),
    };
    let mut targets = Vec::new();
    let mut pieces = Vec::with_capacity(planned.pieces.len());
    for piece in planned.pieces {
        pieces.push(match piece {
            PlannedPiece::Text(text) => PrefetchedPiece::Text(text),
            PlannedPiece::Object(target) => {
                let (sender, parts) = mpsc::unbounded_channel();
                targets.push((target.clone(), sender));
                PrefetchedPiece::Object { target, parts }
            }
        });
    }
    let event = PrefetchEvent::Object { epoch, name: planned.name, facts, pieces };
    events.send(event).await.map_err(|_| ReceiverClosed)?;
    for (target, parts) in targets {
        for range in part_ranges(target.size, planner.settings.part_size) {
            let (reservation, permit) = planner.window.reserve(range.end - range.start).await;
            if parts.send(start_part(planner, &target, range, reservation, permit)).is_err() {
                // The reader has skipped the rest of this object.
                break;
            }
        }
    }
    Ok(())
}

/// The ranges of the parts of an object of `size` bytes; none if it is empty.
pub(super) fn part_ranges(size: u64, part_size: u64) -> impl Iterator<Item = Range<u64>> {
    let parts = 0..size.div_ceil(part_size);
    parts.map(move |number| number * part_size..((number + 1) * part_size).min(size))
}

/// Starts the request for one part.
pub(super) fn start_part(
    planner: &Planner,
    target: &Arc<Target>,
    range: Range<u64>,
    reservation: Reservation,
    permit: RequestPermit,
) -> Part {
    let (sender, frames) = mpsc::unbounded_channel();
    let fetch = Fetch {
        s3: planner.s3.clone(),
        window: planner.window.clone(),
        target: target.clone(),
        verify: planner.settings.verify,
    };
    let task = tokio::spawn(async move {
        fetch.range(range, &sender).await;
        drop(permit);
    });
    Part { frames, reservation, _dropped: None, _task: Task(task) }
}

#[cfg(test)]
mod tests {
    use super::part_ranges;

    #[test]
    fn parts_cover_each_byte_of_an_object_once() {
        assert_eq!(part_ranges(0, 8).count(), 0);
        assert!(part_ranges(8, 8).eq(std::iter::once(0..8)));
        assert_eq!(part_ranges(17, 8).collect::<Vec<_>>(), [0..8, 8..16, 16..17]);
    }
}
