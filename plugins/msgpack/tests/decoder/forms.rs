//! Every first byte from 0x00 to 0xff: whole, cut, and as a field.

use pipemill_msgpack::Msgpack;
use pipemill_plugin::testing::{Setup, assert_all_splits, decode_once};

/// A value for each first byte except for 0xc1, by the table of the specification.
fn value(first: u8) -> Vec<u8> {
    let data = |bytes: &[u8], length: usize| [&[first], bytes, &vec![b'x'; length][..]].concat();
    match first {
        0x00..=0x7f | 0xe0..=0xff | 0xc0 | 0xc2 | 0xc3 => vec![first],
        // Maps and arrays of nil.
        0x80..=0x8f => [vec![first], vec![0xc0; 2 * usize::from(first & 15)]].concat(),
        0x90..=0x9f => [vec![first], vec![0xc0; usize::from(first & 15)]].concat(),
        0xa0..=0xbf => data(&[], (first & 31).into()),
        0xc1 => unreachable!("it is never used"),
        0xc4 | 0xd9 => data(&[3], 3),
        0xc5 | 0xda => data(&[0, 3], 3),
        0xc6 | 0xdb => data(&[0, 0, 0, 3], 3),
        0xc7 => data(&[3, 7], 3),
        0xc8 => data(&[0, 3, 7], 3),
        0xc9 => data(&[0, 0, 0, 3, 7], 3),
        0xca | 0xce | 0xd2 => data(&[], 4),
        0xcb | 0xcf | 0xd3 => data(&[], 8),
        0xcc | 0xd0 => data(&[], 1),
        0xcd | 0xd1 => data(&[], 2),
        0xd4..=0xd8 => data(&[7], 1 << (first - 0xd4)),
        0xdc => vec![first, 0, 2, 0xc0, 0xc0],
        0xdd => vec![first, 0, 0, 0, 2, 0xc0, 0xc0],
        0xde => vec![first, 0, 1, 0xc0, 0xc0],
        0xdf => vec![first, 0, 0, 0, 1, 0xc0, 0xc0],
    }
}

fn firsts() -> impl Iterator<Item = u8> {
    (0..=u8::MAX).filter(|first| *first != 0xc1)
}

#[test]
fn whole_values() {
    let values: Vec<_> = firsts().map(value).collect();
    let outcome = assert_all_splits::<Msgpack>(&Setup::new(&[]), &values.concat());
    assert_eq!(outcome.errors, []);
    let found: Vec<_> = outcome.records.into_iter().flatten().flatten().collect();
    assert_eq!(found, values);
}

/// Unwanted values of each form around a wanted one.
#[test]
fn values_that_are_not_wanted() {
    for first in firsts() {
        let value = value(first);
        let map = [b"\x83\xa1x", &value[..], b"\xa1v\x05", &value, &value].concat();
        let outcome =
            assert_all_splits::<Msgpack>(&Setup::new(&[("fields", "v:uint8")]), &map.repeat(2));
        assert_eq!(outcome.errors, [], "{first:#x}");
        assert_eq!(outcome.records, [[Some(vec![5])], [Some(vec![5])]], "{first:#x}");
        let array = [b"\x93", &value[..], b"\x05", &value].concat();
        let outcome =
            assert_all_splits::<Msgpack>(&Setup::new(&[("fields", "v=1:uint8")]), &array.repeat(2));
        assert_eq!(outcome.records, [[Some(vec![5])], [Some(vec![5])]], "{first:#x}");
    }
}

/// The least number of bytes with which a cut value can be whole.
#[test]
fn need() {
    for first in firsts() {
        let value = value(first);
        for cut in 0..value.len() {
            let bytes = &value[..cut];
            // Some begin like another format.
            let setup = Setup::new(&[("sniff", "false")]);
            let progress = decode_once::<Msgpack>(&setup, bytes).expect("no error");
            assert_eq!(progress.consumed, 0);
            assert!(progress.need > cut && progress.need <= value.len(), "{first:#x}: {cut}");
            // With its head, the minimum is known.
            let known = !matches!(first, 0xc4..=0xc9 | 0xd9..=0xdf) || cut >= 6;
            assert!(!known || cut == 0 || progress.need == value.len(), "{first:#x}: {cut}");
        }
    }
    let need = |bytes: &[u8]| {
        decode_once::<Msgpack>(&Setup::new(&[("fields", "a:int8?")]), bytes).expect("no error").need
    };
    // Each remaining value has at least one byte.
    assert_eq!(need(b"\x82"), 5);
    assert_eq!(need(b"\x82\xa1"), 6);
    assert_eq!(need(b"\xde\x01\x00\xa1a"), 3 + 2 + 511);
    assert_eq!(need(b"\x92\xdb\x00\x00\x10"), 7);
    assert_eq!(need(b"\x92\xdb\x00\x00\x10\x00"), 6 + 4096 + 1);
}
