//! Every split gives what was written, with the features in any order, or an error after damage.

use pipemill_plugin::testing::{Record, Setup, assert_any_split};
use pipemill_tf_example::TfExample;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::write::{self, Value, example};

const FEATURES: &str = "image:bytes, label:int64, weights:float32[3], ids:int64[], maybe:float32?";

/// A message, and the expected record.
fn record() -> impl Strategy<Value = (Vec<u8>, Record)> {
    let parts = (
        prop::collection::vec(any::<u8>(), 0..60),
        any::<i64>(),
        any::<[u32; 3]>(),
        prop::collection::vec(prop_oneof![any::<i64>(), 0i64..300], 0..20),
        any::<Option<u32>>(),
        any::<bool>(),
        any::<u64>(),
    );
    parts.prop_map(|(image, label, weights, ids, maybe, empty, order)| {
        let weights = weights.map(f32::from_bits);
        let maybe = maybe.map(f32::from_bits);
        let mut features = vec![
            ("image", Value::Bytes(vec![image.clone()])),
            ("label", Value::Int64(vec![label])),
            ("weights", Value::Float(weights.to_vec())),
            ("ids", Value::Int64(ids.clone())),
            ("other", Value::Bytes(vec![b"no".to_vec(); 2])),
        ];
        match maybe {
            Some(maybe) => features.push(("maybe", Value::Float(vec![maybe]))),
            None if empty => features.push(("maybe", Value::Nothing)),
            None => {}
        }
        // The features of a map have no order.
        for at in (1..features.len()).rev() {
            features.swap(at, (order >> (8 * at)) as usize % (at + 1));
        }
        let int64 = |ids: &[i64]| ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<_>>();
        let fields = vec![
            Some(image),
            Some(int64(&[label])),
            Some(weights.iter().flat_map(|weight| weight.to_le_bytes()).collect()),
            Some(int64(&ids)),
            maybe.map(|maybe| maybe.to_le_bytes().to_vec()),
        ];
        (example(&features), fields)
    })
}

fn pieces() -> impl Strategy<Value = Vec<usize>> {
    let piece = prop_oneof![4 => 1usize..20, 2 => 1usize..200, 1 => 200usize..3000];
    prop::collection::vec(piece, 0..60)
}

fn setup(verify: bool) -> Setup {
    Setup::new(&[("features", FEATURES), ("verify", if verify { "true" } else { "false" })])
}

proptest! {
    #[test]
    fn written_records_are_read(
        records in prop::collection::vec(record(), 0..12),
        pieces in pieces(),
        verify in any::<bool>(),
    ) {
        let (payloads, fields): (Vec<_>, Vec<_>) = records.into_iter().unzip();
        let file = write::file(&payloads);
        let outcome = assert_any_split::<TfExample>(&setup(verify), &file, &pieces);
        prop_assert_eq!(outcome.errors, []);
        prop_assert_eq!(outcome.records, fields);
    }

    /// The messages are damaged before their checksums are computed, so no checksum is wrong.
    #[test]
    fn damaged_messages(
        records in prop::collection::vec(record(), 1..6),
        flips in prop::collection::vec((any::<Index>(), any::<Index>(), 1u8..), 1..4),
        pieces in pieces(),
        skip in any::<bool>(),
    ) {
        let (mut payloads, fields): (Vec<_>, Vec<_>) = records.into_iter().unzip();
        let mut damaged = vec![false; payloads.len()];
        for (record, place, flip) in flips {
            let record = record.index(payloads.len());
            let place = place.index(payloads[record].len());
            payloads[record][place] ^= flip;
            damaged[record] = true;
        }
        let setup = Setup { skip, ..setup(true) };
        let outcome = assert_any_split::<TfExample>(&setup, &write::file(&payloads), &pieces);
        // Records without damage are read as they were written, up to the error that ends the
        // object.
        let mut start = 0;
        for ((payload, fields), damaged) in payloads.iter().zip(&fields).zip(damaged) {
            if !skip && outcome.errors.first().is_some_and(|(at, ..)| *at <= start) {
                break;
            }
            if !damaged {
                let place = outcome.starts.iter().position(|at| *at == start);
                prop_assert_eq!(place.map(|place| &outcome.records[place]), Some(fields));
            }
            start += payload.len() as u64 + 16;
        }
    }

    #[test]
    fn damaged_and_cut_files(
        records in prop::collection::vec(record(), 1..6),
        flip in any::<(Index, u8)>(),
        cut in any::<Index>(),
        max_record in prop_oneof![Just(64u64 << 20), 0u64..300],
        pieces in pieces(),
        verify in any::<bool>(),
        skip in any::<bool>(),
    ) {
        let mut file = write::file(&records.into_iter().map(|(payload, _)| payload).collect::<Vec<_>>());
        let place = flip.0.index(file.len());
        file[place] ^= flip.1;
        file.truncate(cut.index(file.len() + 1));
        let setup = Setup { skip, max_record, ..setup(verify) };
        assert_any_split::<TfExample>(&setup, &file, &pieces);
    }

    #[test]
    fn any_bytes_as_messages(
        payloads in prop::collection::vec(prop::collection::vec(prop_oneof![any::<u8>(), Just(0x0a), Just(0x12), 0u8..6], 0..40), 0..12),
        pieces in pieces(),
    ) {
        let setup = Setup::new(&[("features", "a:int64[]?, b:float32[]?, c:bytes?")]).skipping();
        assert_any_split::<TfExample>(&setup, &write::file(&payloads), &pieces);
    }
}
