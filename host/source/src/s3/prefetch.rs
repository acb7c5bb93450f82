//! Begins requests in the order in which their bytes will be read, object after object and epoch after epoch, as far
//! ahead as the window lets it.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use super::Task;
use super::error::Trouble;
use super::fetch::{Fetch, Target};
use super::plan::{Plan, Planned, PlannedPiece, Planner};
use super::window::{Permit, Reserved};
use crate::SourceError;

/// Objects that wait to be read, at most; those without bytes take no room in the window.
pub(super) const WAITING: usize = 4_096;

/// What the channel's thread is told, in order.
pub(super) enum Item {
    /// An object, whose bytes are on their way.
    Object { epoch: u32, name: String, pieces: Vec<Coming> },
    /// The epoch is at its end.
    EpochEnd(u32),
    /// It can't go on.
    Failed(SourceError),
    /// There is nothing more.
    End,
}

/// A piece of an object.
pub(super) enum Coming {
    Text(Bytes),
    Object { target: Arc<Target>, parts: mpsc::UnboundedReceiver<Part> },
}

/// A range of an object on its way. Dropping it ends its request.
pub(super) struct Part {
    /// Bytes as they come; a trouble is the last.
    pub(super) frames: mpsc::UnboundedReceiver<Result<Bytes, Trouble>>,
    pub(super) reserved: Reserved,
    /// Tells by being dropped that the part was read, to who waits for that.
    pub(super) _read: Option<oneshot::Sender<()>>,
    _task: Task<()>,
}

/// Runs until all epochs are planned, or nobody wants any more.
pub(super) async fn conduct(planner: Planner, epochs: Range<u32>, items: mpsc::Sender<Item>) {
    for epoch in epochs {
        let mut plan = Plan::begin(planner.clone(), epoch);
        while let Some(planned) = plan.next().await {
            let item = match planned {
                Err(error) => {
                    // Nobody may want to know any more; either way this is the end.
                    let _ = items.send(Item::Failed(error)).await;
                    return;
                }
                Ok(planned) => planned,
            };
            if begin(&planner, item, epoch, &items).await.is_err() {
                return;
            }
        }
        if items.send(Item::EpochEnd(epoch)).await.is_err() {
            return;
        }
    }
    let _ = items.send(Item::End).await;
}

/// The channel's thread is gone.
struct Unwanted;

async fn begin(
    planner: &Planner,
    planned: Planned,
    epoch: u32,
    items: &mpsc::Sender<Item>,
) -> Result<(), Unwanted> {
    let mut bodies = Vec::new();
    let mut pieces = Vec::with_capacity(planned.pieces.len());
    for piece in planned.pieces {
        pieces.push(match piece {
            PlannedPiece::Text(text) => Coming::Text(text),
            PlannedPiece::Object(target) => {
                let (sender, parts) = mpsc::unbounded_channel();
                bodies.push((target.clone(), sender));
                Coming::Object { target, parts }
            }
        });
    }
    let item = Item::Object { epoch, name: planned.name, pieces };
    items.send(item).await.map_err(|_| Unwanted)?;
    for (target, parts) in bodies {
        for range in ranges(target.size, planner.settings.part_size) {
            let (reserved, permit) = planner.window.admit(range.end - range.start).await;
            if parts.send(part(planner, &target, range, reserved, permit)).is_err() {
                // The rest of this object is not wanted.
                break;
            }
        }
    }
    Ok(())
}

/// The parts of an object of this size; none if it is empty.
pub(super) fn ranges(size: u64, part: u64) -> impl Iterator<Item = Range<u64>> {
    (0..size.div_ceil(part)).map(move |number| number * part..((number + 1) * part).min(size))
}

/// Begins to fetch a part.
pub(super) fn part(
    planner: &Planner,
    target: &Arc<Target>,
    range: Range<u64>,
    reserved: Reserved,
    permit: Permit,
) -> Part {
    let (sender, frames) = mpsc::unbounded_channel();
    let fetch = Fetch {
        reach: planner.reach.clone(),
        window: planner.window.clone(),
        target: target.clone(),
        verify: planner.settings.verify,
    };
    let task = tokio::spawn(async move {
        fetch.range(range, &sender).await;
        drop(permit);
    });
    Part { frames, reserved, _read: None, _task: Task(task) }
}

#[cfg(test)]
mod tests {
    use super::ranges;

    #[test]
    fn parts_cover_an_object_once() {
        assert_eq!(ranges(0, 8).count(), 0);
        assert!(ranges(8, 8).eq(std::iter::once(0..8)));
        assert_eq!(ranges(17, 8).collect::<Vec<_>>(), [0..8, 8..16, 16..17]);
    }
}
