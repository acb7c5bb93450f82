//! Every split gives the same records and errors, of whole shards and of damaged ones, and decoding
//! begins again after any sample.

use pipemill_mds::Mds;
use pipemill_plugin::testing::{Record, Setup, assert_any_split, assert_restarts};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::write::{Column, array, list, shard};

const COLUMNS: [Column; 5] = [
    ("data", "bytes", None),
    ("grid", "ndarray:uint8", None),
    ("id", "uint16", Some(2)),
    ("images", "list[jpeg]", None),
    ("text", "str", None),
];

/// The values of a sample as the shard has them, and its record.
fn sample() -> impl Strategy<Value = (Vec<Vec<u8>>, Record)> {
    let dims = (1_u8..4, 1_u8..4);
    let images = vec(vec(any::<u8>(), 0..9), 0..4);
    (vec(any::<u8>(), 0..20), dims, any::<u16>(), images, ".{0,6}").prop_map(
        |(data, (rows, width), id, images, text)| {
            let elements: Vec<_> = (0..rows * width).collect();
            let shape = [u64::from(rows), u64::from(width)].map(u64::to_le_bytes).concat();
            let images: Vec<_> = images.iter().map(Vec::as_slice).collect();
            let values = vec![
                data.clone(),
                array(&[rows, width], &elements),
                id.to_le_bytes().to_vec(),
                list(&images),
                text.clone().into_bytes(),
            ];
            let record = vec![data, elements, shape, id.to_le_bytes().to_vec(), of_list(&images)];
            let record = record.into_iter().chain([text.into_bytes()]);
            (values, record.map(Some).collect())
        },
    )
}

/// The value of a list.
fn of_list(elements: &[&[u8]]) -> Vec<u8> {
    let mut at = 4 * (elements.len() as u32 + 1);
    let mut value = at.to_le_bytes().to_vec();
    for element in elements {
        at += element.len() as u32;
        value.extend(at.to_le_bytes());
    }
    [value, elements.concat()].concat()
}

fn pieces() -> impl Strategy<Value = Vec<usize>> {
    vec(prop_oneof![1_usize..30, 1_usize..700], 0..40)
}

proptest! {
    #[test]
    fn records_are_the_samples(samples in vec(sample(), 0..12), pieces in pieces(), skip: bool) {
        let (values, records): (Vec<_>, Vec<_>) = samples.into_iter().unzip();
        let setup = Setup { skip, ..Setup::new(&[]) };
        let shard = shard(&COLUMNS, &values);
        let outcome = assert_any_split::<Mds>(&setup, &shard, &pieces);
        prop_assert_eq!(outcome.errors, []);
        prop_assert_eq!(outcome.records, records);
        // After each sample, if they come one by one.
        let restarts = assert_restarts::<Mds>(&setup, &shard, &vec![1; shard.len()]);
        prop_assert!(restarts.len() >= values.len().min(3), "{:?}", restarts);
    }

    #[test]
    fn damaged_shards(
        samples in vec(sample(), 0..6),
        flips in vec((any::<Index>(), 1_u8..), 0..4),
        cut in prop::option::of((any::<Index>(), 1_usize..80)),
        max_record in prop_oneof![3 => Just(64_u64 << 20), 1 => 0_u64..120],
        skip: bool,
        pieces in pieces(),
    ) {
        let values: Vec<_> = samples.into_iter().map(|(values, _)| values).collect();
        let mut shard = shard(&COLUMNS, &values);
        for (at, flip) in flips {
            let at = at.index(shard.len());
            shard[at] ^= flip;
        }
        if let Some((at, length)) = cut {
            let at = at.index(shard.len());
            shard.drain(at..shard.len().min(at + length));
        }
        prop_assume!(!shard.is_empty());
        let setup = Setup { skip, max_record, ..Setup::new(&[]) };
        assert_any_split::<Mds>(&setup, &shard, &pieces);
    }

    /// A shard that is cut short has the samples before the cut, without the one that may have been
    /// the last, and one error.
    #[test]
    fn a_cut_is_an_error(samples in vec(sample(), 1..8), at in any::<Index>(), pieces in pieces()) {
        let (values, records): (Vec<_>, Vec<_>) = samples.into_iter().unzip();
        let shard = shard(&COLUMNS, &values);
        let at = 1 + at.index(shard.len() - 1);
        let outcome = assert_any_split::<Mds>(&Setup::new(&[]), &shard[..at], &pieces);
        prop_assert!(records.starts_with(&outcome.records) && outcome.records.len() < records.len());
        prop_assert_eq!(outcome.errors.len(), 1, "{:?}", outcome.errors);
        prop_assert!(outcome.errors[0].2.contains("cut short"), "{:?}", outcome.errors);
    }
}
