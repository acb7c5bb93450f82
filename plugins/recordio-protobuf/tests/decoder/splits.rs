//! Every split gives what was written, or an error after damage.

use pipemill_plugin::testing::{Record, Setup, assert_any_split, decode_split};
use pipemill_recordio_protobuf::RecordIoProtobuf;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::write::{self, bytes, entry, field, float32, int32, part, sparse};

/// The options for the records of [`record`].
const OPTIONS: [(&str, &str); 5] = [
    ("features", "values, ids:int32[], image:bytes?"),
    ("label", "values:float32"),
    ("uid", "true"),
    ("metadata", "true"),
    ("multipart", "concat"),
];

fn le(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// A message, and the record that it must become.
fn record(is_sparse: bool) -> impl Strategy<Value = (Vec<u8>, Record)> {
    let parts = (
        prop::collection::vec((any::<u32>(), any::<u32>()), 3),
        prop::collection::vec(any::<i32>(), 0..20),
        any::<f32>(),
        any::<Option<[u8; 5]>>(),
        any::<Option<String>>(),
        any::<bool>(),
    );
    parts.prop_map(move |(values, ids, label, image, uid, backwards)| {
        let numbers: Vec<_> = values.iter().map(|(value, _)| f32::from_bits(*value)).collect();
        let keys: Vec<_> = values.iter().map(|(_, key)| u64::from(*key)).collect();
        let tensor =
            if is_sparse { sparse(&numbers, &keys, &[1 << 33]) } else { float32(&numbers) };
        let mut entries = vec![
            entry(1, "values", &tensor),
            entry(1, "ids", &int32(&ids)),
            entry(2, "values", &float32(&[label])),
            field(5, b"configuration"),
        ];
        entries.extend(image.map(|image| entry(1, "image", &bytes(&[&image]))));
        entries.extend(uid.as_ref().map(|uid| field(3, uid.as_bytes())));
        if backwards {
            entries.reverse();
        }
        let int64s = |values: &[u64]| values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let mut fields = vec![Some(le(&numbers))];
        if is_sparse {
            fields.insert(0, Some(int64s(&keys)));
            fields.push(Some(int64s(&[1 << 33])));
        }
        fields.extend([
            Some(ids.iter().flat_map(|id| id.to_le_bytes()).collect()),
            image.map(Vec::from),
            Some(le(&[label])),
            uid.map(String::into_bytes),
            None,
        ]);
        (entries.concat(), fields)
    })
}

type Written = Vec<(Vec<u8>, Record)>;

fn records(most: usize) -> impl Strategy<Value = Written> {
    any::<bool>().prop_flat_map(move |is_sparse| prop::collection::vec(record(is_sparse), 0..most))
}

/// A file of these records. Records with more than `cut` bytes are split there into two parts.
fn file(payloads: &[Vec<u8>], cut: usize) -> Vec<u8> {
    let mut file = Vec::new();
    for payload in payloads {
        match payload.split_at_checked(cut) {
            Some((head, tail)) => {
                part(&mut file, 1, head);
                part(&mut file, 3, tail);
            }
            None => part(&mut file, 0, payload),
        }
    }
    file
}

fn pieces() -> impl Strategy<Value = Vec<usize>> {
    let piece = prop_oneof![4 => 1usize..20, 2 => 1usize..200, 1 => 200usize..3000];
    prop::collection::vec(piece, 0..60)
}

proptest! {
    #[test]
    fn written_records_are_read(
        records in records(10),
        cut in prop_oneof![Just(usize::MAX), 0usize..200],
        pieces in pieces(),
    ) {
        let (payloads, fields): (Vec<_>, Vec<_>) = records.into_iter().unzip();
        let setup = Setup::new(&OPTIONS);
        let outcome =
            assert_any_split::<RecordIoProtobuf>(&setup, &file(&payloads, cut), &pieces);
        prop_assert_eq!(outcome.errors, []);
        prop_assert_eq!(outcome.records, fields);
    }

    /// The template cache makes no difference: a record is decoded as if it were alone in the file.
    #[test]
    fn similar_records_decode_as_if_alone(
        base in any::<bool>().prop_flat_map(record),
        flips in prop::collection::vec(
            prop::collection::vec((any::<Index>(), 1u8..), 0..3),
            3..20,
        ),
        pieces in pieces(),
    ) {
        let damaged = |flips: &Vec<(Index, u8)>| {
            let mut payload = base.0.clone();
            for (place, flip) in flips {
                let place = place.index(payload.len());
                payload[place] ^= flip;
            }
            payload
        };
        let payloads: Vec<_> = flips.iter().map(damaged).collect();
        let options = [
            ("features", "values:float32[]?, ids:int32[]?, image:bytes?"),
            ("label", "values:float32?"),
            ("uid", "true"),
            ("sparse", "dense"),
        ];
        let setup = Setup::new(&options).skipping();
        let together =
            assert_any_split::<RecordIoProtobuf>(&setup, &write::file(&payloads), &pieces);
        let (mut records, mut messages) = (Vec::new(), Vec::new());
        for payload in payloads {
            let single = decode_split::<RecordIoProtobuf>(&setup, &write::file(&[payload]), &[]);
            records.extend(single.records);
            messages.extend(single.errors.into_iter().map(|(.., message)| message));
        }
        prop_assert_eq!(together.records, records);
        let errors: Vec<_> = together.errors.into_iter().map(|(.., message)| message).collect();
        prop_assert_eq!(errors, messages);
    }

    #[test]
    fn damaged_and_cut_files(
        records in records(6),
        cut in prop_oneof![Just(usize::MAX), 0usize..200],
        flips in prop::collection::vec((any::<Index>(), 1u8..), 0..4),
        end in any::<Index>(),
        max_record in prop_oneof![Just(64u64 << 20), 0u64..300],
        pieces in pieces(),
        skip in any::<bool>(),
        dense in any::<bool>(),
    ) {
        let payloads: Vec<_> = records.into_iter().map(|(payload, _)| payload).collect();
        let mut bytes = file(&payloads, cut);
        for (place, flip) in flips {
            if !bytes.is_empty() {
                let place = place.index(bytes.len());
                bytes[place] ^= flip;
            }
        }
        bytes.truncate(end.index(bytes.len() + 1));
        let mut setup = Setup { skip, max_record, ..Setup::new(&OPTIONS) };
        if dense {
            setup.options.push(("sparse".into(), "dense".into()));
        }
        assert_any_split::<RecordIoProtobuf>(&setup, &bytes, &pieces);
    }

    #[test]
    fn any_bytes_as_messages(
        payloads in prop::collection::vec(
            prop::collection::vec(prop_oneof![any::<u8>(), Just(0x0a), Just(0x12), 0u8..6], 0..40),
            0..12,
        ),
        pieces in pieces(),
        typed in any::<bool>(),
    ) {
        let options = [("features", "a:float32[]?, b:bytes?"), ("label", "c:int32[]?")];
        let setup = Setup::new(if typed { &options } else { &[] }).skipping();
        assert_any_split::<RecordIoProtobuf>(&setup, &write::file(&payloads), &pieces);
    }
}
