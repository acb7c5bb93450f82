//! Tests the reader against a simple model of the wire format: written data is read, in one piece
//! or several, and no input makes the reader panic or read beyond the message.

use pipemill_parsing::protobuf::{
    MessageMap, MessageReader, Pieces, WireField, WireType, add_varints, append_varints,
    count_varints, each_varint,
};
use pipemill_parsing::testing::{varints, write_varint};
use proptest::prelude::*;

/// The value of a field, by its wire type.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Varint(u64),
    Fixed64([u8; 8]),
    Bytes(Vec<u8>),
    Fixed32([u8; 4]),
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        number().prop_map(Value::Varint),
        any::<[u8; 8]>().prop_map(Value::Fixed64),
        prop::collection::vec(any::<u8>(), 0..200).prop_map(Value::Bytes),
        any::<[u8; 4]>().prop_map(Value::Fixed32),
    ]
}

/// Numbers whose varints have any length.
fn number() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0u32..64).prop_map(|(number, shift)| number >> shift)
}

fn write(fields: &[(u32, Value)]) -> Vec<u8> {
    let mut message = Vec::new();
    for (number, value) in fields {
        let (wire, bytes): (u64, &[u8]) = match value {
            Value::Varint(_) => (0, &[]),
            Value::Fixed64(bytes) => (1, bytes),
            Value::Bytes(bytes) => (2, bytes),
            Value::Fixed32(bytes) => (5, bytes),
        };
        write_varint(&mut message, u64::from(*number) << 3 | wire);
        match value {
            Value::Varint(value) => write_varint(&mut message, *value),
            Value::Bytes(bytes) => write_varint(&mut message, bytes.len() as u64),
            _ => {}
        }
        message.extend_from_slice(bytes);
    }
    message
}

fn read(bytes: &[u8], field: &WireField) -> (u32, Value) {
    let value = &bytes[field.value.clone()];
    let value = match field.wire_type {
        WireType::Varint => {
            let mut number = 0;
            let list = Pieces::from(field.value.clone());
            each_varint(bytes, &list, |value| number = value).expect("the reader accepted it");
            Value::Varint(number)
        }
        WireType::Fixed64 => Value::Fixed64(value.try_into().expect("8 bytes")),
        WireType::Bytes => Value::Bytes(value.to_vec()),
        WireType::Fixed32 => Value::Fixed32(value.try_into().expect("4 bytes")),
    };
    (field.number, value)
}

fn fields() -> impl Strategy<Value = Vec<(u32, Value)>> {
    let number = prop_oneof![1u32..16, 1u32..1 << 29];
    prop::collection::vec((number, value()), 0..20)
}

proptest! {
    #[test]
    fn what_was_written_is_read(fields in fields(), before in 0usize..9, cut in 0usize..20) {
        let cut = cut.min(fields.len());
        let (head, tail) = (write(&fields[..cut]), write(&fields[cut..]));
        // A message in two pieces, with other bytes around and between them.
        let (first, gap) = (before + head.len(), b"gap");
        let bytes = [&vec![0xff; before], &head[..], gap, &tail, &[0xff; 9]].concat();
        let mut message = Pieces::default();
        message.push(before..first);
        message.push(first + gap.len()..first + gap.len() + tail.len());
        let mut reader = MessageReader::over(&bytes, &message);
        let mut found = Vec::new();
        while let Some(field) = reader.next().expect("a valid message") {
            found.push(read(&bytes, &field));
        }
        prop_assert_eq!(found, fields);
    }

    #[test]
    fn random_bytes(bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0u8..40], 0..80), end in 0usize..80) {
        let end = end.min(bytes.len());
        let mut reader = MessageReader::new(&bytes, 0..end);
        let mut last = 0;
        loop {
            match reader.next() {
                Ok(Some(field)) => {
                    prop_assert!(last <= field.at && field.at < field.value.start);
                    prop_assert!(field.value.end <= end);
                    last = field.value.end;
                }
                Ok(None) => {
                    // A group is skipped, even the last one.
                    let is_group = bytes[last..end].first().is_some_and(|tag| tag & 7 == 3);
                    prop_assert!(last == end || is_group, "{last} of {end}");
                    break;
                }
                Err(error) => {
                    prop_assert!(error.at >= last && error.at <= end, "{error}");
                    break;
                }
            }
        }
    }

    #[test]
    fn packed_varints_in_two_runs(numbers in prop::collection::vec(number(), 0..40), cut in 0usize..40) {
        let cut = cut.min(numbers.len());
        let packed = |numbers: &[u64]| Value::Bytes(varints(numbers.iter().copied()));
        let bytes = write(&[(1, packed(&numbers[..cut])), (1, packed(&numbers[cut..]))]);
        let (mut reader, mut list) = (MessageReader::new(&bytes, 0..bytes.len()), Pieces::default());
        while let Some(field) = reader.next().expect("a valid message") {
            add_varints(&bytes, &mut list, &field).expect("whole varints");
        }
        let count = count_varints(&bytes, &list);
        prop_assert_eq!(count, numbers.len());
        let mut payload = b"before".to_vec();
        append_varints(&bytes, &list, count, &mut payload, u64::to_le_bytes).expect("a valid message");
        let wanted = numbers.iter().flat_map(|number| number.to_le_bytes());
        prop_assert_eq!(payload, b"before".iter().copied().chain(wanted).collect::<Vec<_>>());
    }

    /// Several maps in a row, with keys in any order, duplicate keys, and unwanted keys.
    #[test]
    fn maps(maps in prop::collection::vec(prop::collection::vec((0usize..8, 0u8..9), 0..20), 1..5)) {
        let keys = ["b", "", "a", "abc", "ab"];
        let others = ["c", "abcd", "B"];
        let mut map = MessageMap::new(keys.into_iter());
        for entries in maps {
            map.clear();
            let mut last = [None; 5];
            for (key, value) in entries {
                let name = keys.get(key).unwrap_or_else(|| &others[key - keys.len()]);
                let value = vec![value; usize::from(value)];
                let bytes = write(&[
                    (1, Value::Bytes(name.as_bytes().to_vec())),
                    (2, Value::Bytes(value.clone())),
                ]);
                map.add(&bytes, 0..bytes.len()).expect("a valid message");
                if let Some(last) = last.get_mut(key) {
                    *last = Some(value.len());
                }
            }
            let found: Vec<_> = map.values().map(|value| value.map(Pieces::len)).collect();
            prop_assert_eq!(found, last);
        }
    }
}

#[test]
fn varints_have_at_most_64_bits() {
    let read = |bytes: &[u8]| {
        let bytes = [b"\x08", bytes].concat();
        let mut reader = MessageReader::new(&bytes, 0..bytes.len());
        reader.next().map(|field| field.map(|field| read(&bytes, &field).1))
    };
    let value = |value| Ok(Some(Value::Varint(value)));
    assert_eq!(read(b"\x80\x80\x80\x80\x00"), value(0));
    assert_eq!(read(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), value(u64::MAX));
    let error = |bytes: &[u8]| read(bytes).expect_err("not a valid varint").to_string();
    let long = "a varint of more than 64 bits";
    assert_eq!(error(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"), long);
    assert_eq!(error(b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00"), long);
    assert_eq!(error(b"\x80\x80"), "the end of its message inside a varint");
}
