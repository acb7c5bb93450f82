//! The rule that says when a batch leaves: one pure function.
//! [`BatchBuilder`](super::batch_builder::BatchBuilder) asks it at each cut point, and nothing else
//! hands over a batch.

/// A consumer that waits gets a batch as soon as it has this many bytes. Memory that comes back
/// soon is still in the processor's caches when it is filled again: reading a pipe into it takes
/// two thirds of the time.
const WARM_BYTES: usize = 1 << 20;

/// A moment at which a batch may leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CutPoint {
    /// The decoder was called, and what comes next fits into the batch's memory.
    Decoded,
    /// The source has had nothing for as long as records may wait.
    SourceIdle,
    /// What comes next does not fit into the batch's memory.
    NoRoom,
    /// The object is at its end: a batch holds records of one object.
    ObjectEnd,
    /// The channel has failed. What was decoded before the failure is good.
    Failed,
}

/// What a batch holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fill {
    /// Number of records.
    pub(super) records: usize,
    /// Bytes of payload.
    pub(super) bytes: usize,
}

/// Whether the batch leaves. `has_demand` says whether a consumer waits for one; it is asked only
/// where that matters.
pub(super) fn is_cut(fill: Fill, point: CutPoint, has_demand: impl FnOnce() -> bool) -> bool {
    if fill.records == 0 {
        return false;
    }
    match point {
        CutPoint::Decoded => fill.bytes >= WARM_BYTES && has_demand(),
        CutPoint::SourceIdle | CutPoint::NoRoom | CutPoint::ObjectEnd | CutPoint::Failed => true,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: [CutPoint; 5] = [
        CutPoint::Decoded,
        CutPoint::SourceIdle,
        CutPoint::NoRoom,
        CutPoint::ObjectEnd,
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
                prop_assert!(!is_cut(empty, point, || demand));
            }
        }

        #[test]
        fn records_never_wait_beyond_an_end_or_without_room(fill in fill(), demand: bool) {
            for point in ALL.into_iter().filter(|point| *point != CutPoint::Decoded) {
                prop_assert_eq!(is_cut(fill, point, || demand), fill.records > 0);
            }
        }

        #[test]
        fn while_there_is_room_only_a_waiting_consumer_gets_a_batch_early(
            fill in fill(),
            demand: bool,
        ) {
            let early = is_cut(fill, CutPoint::Decoded, || demand);
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
                let before = is_cut(fill, point, || demand);
                prop_assert!(!before || is_cut(more, point, || true));
            }
        }
    }
}
