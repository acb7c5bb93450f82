//! A decoder whose state is more than a prefix: that of `bad-plugins/src/saves.rs`, which numbers
//! its records.

use pipemill_testing::BAD_PLUGIN;
use pipemill_types::{BatchAcross, BatchSize, Tail, has_saved};
use proptest::prelude::*;

use crate::host::{Bad, Bytes, Job, Setup, run};
use crate::inputs::noise;

/// Framed records.
pub fn framed() -> impl Strategy<Value = Vec<u8>> {
    let length = prop_oneof![6 => 0u16..30, 3 => 0u16..700, 1 => 0u16..5_000];
    let records = prop::collection::vec((length, any::<u64>()), 0..60);
    records.prop_map(|records| {
        records.into_iter().flat_map(|(size, seed)| frame(size, seed)).collect()
    })
}

fn frame(size: u16, seed: u64) -> Vec<u8> {
    let payload = noise(usize::from(size), seed);
    let sum = payload.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    [&[0xa5], &size.to_le_bytes()[..], &payload, &[sum]].concat()
}

/// The places of batches are close to them only with what the decoder saves, whoever decodes.
#[test]
fn batches_have_places_close_to_them() {
    let object = Bytes((0..200).flat_map(|seed| frame(40, seed)).collect());
    let job = Job {
        decoder: BAD_PLUGIN,
        options: vec![("do", "framed-carry".to_owned())],
        objects: vec![object.clone(), object],
        on_error: Bad::Fail,
        max_record: 1 << 20,
        max_errors: 0,
    };
    let size = BatchSize { records: 7, tail: Tail::Keep, across: BatchAcross::Object };
    for (workers, saves) in [(1, None), (2, None), (1, Some(500)), (2, Some(500))] {
        let pieces = vec![100; 1_000];
        let batch = Some(size);
        let way = Setup { pieces, workers, saves, batch, ..Setup::in_one_piece() };
        let observed = run(&job, &way);
        assert_eq!(observed.cuts.len(), 2 * 200usize.div_ceil(7));
        for cut in &observed.cuts {
            let place = &cut.start.position;
            let number =
                u64::from_le_bytes(*cut.records[0].1[0].as_ref().unwrap().first_chunk().unwrap());
            assert_eq!(number, place.first_record + 1);
            let behind = cut.records[0].0 - place.offset;
            assert_eq!(has_saved(place.identity.text()), place.offset > 0);
            assert!(
                saves.is_none() || behind <= 500 + 100 + 44,
                "{place:?} is {behind} bytes behind"
            );
            assert!(saves.is_some() || place.offset == 0, "{place:?}");
        }
    }
}
