//! Ends an epoch: hands over its last records, and reports those that are dropped.

use pipemill_types::{BatchSize, ErrorKind, Fault};

use crate::batch::writer::BatchWriter;
use crate::pump::object::Decoding;
use crate::stats::monitor::Monitor;
use crate::stats::stage_timer::Activity;
use crate::{Sink, StopReason};

/// Ends an epoch, at its own end or early. Returns whether the consumers ended it early.
pub(super) fn end_epoch<S: Sink>(
    decoding: &Decoding<'_>,
    batch: Option<BatchSize>,
    writer: &mut BatchWriter<'_, S>,
    monitor: Monitor<'_>,
    epoch: u32,
    early: bool,
) -> Result<bool, StopReason> {
    monitor.enter(Activity::Batch);
    let early = early
        || !end_whole(writer, epoch, |left| {
            decoding.epoch_failure(epoch, ends_before_state(epoch, left)).into()
        })?;
    if early {
        writer.end_epoch(epoch, true)?;
    }
    writer.skip_records(0);
    monitor.batches_granted(writer.granted());
    report_dropped(decoding.channel, batch, epoch, writer.take_dropped());
    monitor.epoch_ends(epoch, early);
    Ok(early)
}

/// Ends an epoch at its own end. Returns false if the consumers don't want its last records: then
/// it ends early. `too_short` makes the failure of an epoch that lacks this many records to reach
/// the place of the state.
pub(super) fn end_whole<S: Sink>(
    writer: &mut BatchWriter<'_, S>,
    epoch: u32,
    too_short: impl FnOnce(u64) -> StopReason,
) -> Result<bool, StopReason> {
    let ended = writer.finish().and_then(|()| match writer.left_to_skip() {
        0 => writer.end_epoch(epoch, false),
        left => Err(too_short(left)),
    });
    match ended {
        Err(StopReason::EpochEnded) => Ok(false),
        other => other.map(|()| true),
    }
}

/// The fault of an epoch that lacks `left` records to reach the place of the state.
pub(super) fn ends_before_state(epoch: u32, left: u64) -> Fault {
    let message =
        format!("epoch {epoch} ends {left} records before the place at which the state goes on");
    changed_input(message)
}

/// The fault of an input that has changed since a state was taken.
pub fn changed_input(message: String) -> Fault {
    let remedy = "the input has changed since the state was taken: bring it back, or begin without \
                  the state";
    Fault::new(ErrorKind::Refused, message, remedy)
}

/// Logs how many records of an epoch were dropped by `tail = "drop"`.
pub(super) fn report_dropped(name: &str, size: Option<BatchSize>, epoch: u32, dropped: u64) {
    if let Some(size) = size.filter(|_| dropped > 0) {
        log::info!(
            channel = name, epoch, records = dropped;
            "channel `{name}`, epoch {epoch}: {dropped} records at the end were left out, because \
            they don't fill a batch of {} (tail = \"drop\")",
            size.records
        );
    }
}
