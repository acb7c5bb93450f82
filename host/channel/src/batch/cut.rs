//! The rule that says when a batch leaves: one pure function.
//! [`BatchWriter`](crate::batch::writer::BatchWriter) asks it at each cut point, and nothing else
//! hands over a batch.
//!
//! Without a [`BatchSize`], a batch leaves as early as its consumer gains from it, so its size
//! depends on timing. With one, only the records decide: the same input gives the same batches.

use std::time::Duration;

use pipemill_types::{BatchAcross, BatchSize};

/// Least bytes of a batch for a consumer that waits. The batch leaves with them once [`WARM_TIME`]
/// has passed since its first record. Memory that comes back soon is still in the processor's
/// caches when it is filled again: reading a pipe into it takes two thirds of the time.
const WARM_BYTES: usize = 1 << 20;
/// Least time between the first record of a batch and its grant to a consumer that waits. To wake a
/// consumer takes tens of microseconds, most of all in a virtual machine. With batches of a MiB, a
/// file that is decoded at 6 GB/s would be an eighth slower.
pub(crate) const WARM_TIME: Duration = Duration::from_millis(1);

/// A moment at which a batch may leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CutPoint {
    /// The decoder was called, and the next bytes fit into the batch's memory.
    Decoded,
    /// The source has given nothing for as long as records may wait.
    SourceIdle,
    /// The next bytes or records do not fit into the batch's memory.
    NoRoom,
    /// The object is at its end: without a size, a batch holds records of one object.
    ObjectEnd,
    /// The epoch is at its end.
    EpochEnd,
    /// The channel has failed. Records decoded before the failure are good.
    Failed,
}

/// The content of a batch, as the rule sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fill {
    /// Number of records.
    pub(crate) records: usize,
    /// Bytes of payload.
    pub(crate) bytes: usize,
}

/// Whether the batch leaves. `is_awaited` says whether a consumer waits for it, [`WARM_TIME`] after
/// its first record; it is asked only where that matters.
pub(crate) fn is_cut(
    fill: Fill,
    point: CutPoint,
    size: Option<BatchSize>,
    is_awaited: impl FnOnce() -> bool,
) -> bool {
    if fill.records == 0 {
        return false;
    }
    if let Some(size) = size {
        return match point {
            // A smaller batch would shift all later ones, if the job continues after the failure.
            CutPoint::Decoded | CutPoint::SourceIdle | CutPoint::NoRoom | CutPoint::Failed => {
                fill.records >= size.records
            }
            CutPoint::ObjectEnd => {
                fill.records >= size.records || size.across == BatchAcross::Object
            }
            CutPoint::EpochEnd => true,
        };
    }
    match point {
        CutPoint::Decoded => fill.bytes >= WARM_BYTES && is_awaited(),
        CutPoint::SourceIdle
        | CutPoint::NoRoom
        | CutPoint::ObjectEnd
        | CutPoint::EpochEnd
        | CutPoint::Failed => true,
    }
}

#[cfg(test)]
mod tests {
    use pipemill_types::Tail;
    use proptest::prelude::*;

    use super::*;

    const ALL: [CutPoint; 6] = [
        CutPoint::Decoded,
        CutPoint::SourceIdle,
        CutPoint::NoRoom,
        CutPoint::ObjectEnd,
        CutPoint::EpochEnd,
        CutPoint::Failed,
    ];

    fn fill() -> impl Strategy<Value = Fill> {
        let bytes = prop_oneof![0..2 * WARM_BYTES, WARM_BYTES - 1..WARM_BYTES + 2];
        (0_usize..5, bytes).prop_map(|(records, bytes)| Fill { records, bytes })
    }

    proptest! {
        #[test]
        fn an_empty_batch_never_leaves(fill in fill(), demand: bool) {
            for point in ALL {
                let empty = Fill { records: 0, ..fill };
                prop_assert!(!is_cut(empty, point, None, || demand));
            }
        }

        #[test]
        fn records_never_wait_beyond_an_end_or_without_room(fill in fill(), demand: bool) {
            for point in ALL.into_iter().filter(|point| *point != CutPoint::Decoded) {
                prop_assert_eq!(is_cut(fill, point, None, || demand), fill.records > 0);
            }
        }

        #[test]
        fn while_there_is_room_only_a_waiting_consumer_gets_a_batch_early(
            fill in fill(),
            demand: bool,
        ) {
            let early = is_cut(fill, CutPoint::Decoded, None, || demand);
            prop_assert!(!early || demand && fill.bytes >= WARM_BYTES);
        }

        #[test]
        fn more_records_bytes_or_demand_never_hold_a_batch_back(
            fill in fill(),
            records in 0_usize..3,
            bytes in 0..WARM_BYTES,
            demand: bool,
        ) {
            let more = Fill { records: fill.records + records, bytes: fill.bytes + bytes };
            for point in ALL {
                let before = is_cut(fill, point, None, || demand);
                prop_assert!(!before || is_cut(more, point, None, || true));
            }
        }

        #[test]
        fn with_a_size_neither_demand_nor_bytes_nor_time_say_when_a_batch_leaves(
            fill in fill(), records in 1_usize..6, across_epoch: bool, demand: bool
        ) {
            let across = if across_epoch { BatchAcross::Epoch } else { BatchAcross::Object };
            let size = Some(BatchSize { records, tail: Tail::Keep, across });
            for point in ALL {
                let is_end = point == CutPoint::EpochEnd
                    || point == CutPoint::ObjectEnd && across == BatchAcross::Object;
                let expected = fill.records > 0 && (is_end || fill.records >= records);
                prop_assert_eq!(is_cut(fill, point, size, || demand), expected);
                let more = Fill { bytes: fill.bytes + WARM_BYTES, ..fill };
                prop_assert_eq!(is_cut(more, point, size, || !demand), expected);
            }
        }
    }
}
