//! Every split gives the same records as a simple model.

use pipemill_fixed::Fixed;
use pipemill_plugin::testing::{Setup, assert_any_split, decode_split};
use proptest::prelude::*;

/// An input of `length` bytes in which every four bytes differ from the others.
fn input(length: usize) -> Vec<u8> {
    (0..length as u32)
        .flat_map(|n| (n.wrapping_mul(0x9e37_79b1) >> 8).to_le_bytes())
        .take(length)
        .collect()
}

proptest! {
    #[test]
    fn records_are_those_of_the_model(
        length in 0usize..600,
        size in 1usize..40,
        header in prop_oneof![Just(0usize), 0usize..50, 0usize..700],
        pieces in prop::collection::vec(1usize..90, 0..40),
        skip: bool,
    ) {
        let input = input(length);
        let options = [("size", &*size.to_string()), ("header", &header.to_string())];
        let setup = Setup { skip, ..Setup::new(&options) };
        let outcome = assert_any_split::<Fixed>(&setup, &input, &pieces);
        let body = input.get(header..).unwrap_or_default();
        let records: Vec<_> =
            body.chunks_exact(size).map(|record| vec![Some(record.to_vec())]).collect();
        prop_assert_eq!(&outcome.records, &records);
        let starts: Vec<_> = (0..records.len()).map(|n| (header + n * size) as u64).collect();
        prop_assert_eq!(outcome.starts, starts);
        let places: Vec<_> = outcome.errors.iter().map(|(at, ..)| *at as usize).collect();
        let cut = if length > 0 && length < header {
            vec![length - 1]
        } else if body.len() % size > 0 {
            vec![length - body.len() % size]
        } else {
            vec![]
        };
        prop_assert_eq!(places, cut);
    }

    #[test]
    fn several_fields_of_any_split(records in 0usize..30, pieces in prop::collection::vec(1usize..50, 0..30)) {
        let input = input(3 + 11 * records);
        let setup =
            Setup::new(&[("fields", "a:int32,b:bytes[3],c:float32"), ("header", "3")]);
        let outcome = assert_any_split::<Fixed>(&setup, &input, &pieces);
        prop_assert_eq!(outcome.errors, vec![]);
        prop_assert_eq!(outcome.records.len(), records);
        for (record, bytes) in outcome.records.iter().zip(input[3..].chunks_exact(11)) {
            let wanted = [&bytes[..4], &bytes[4..7], &bytes[7..]];
            prop_assert_eq!(record, &wanted.map(|field| Some(field.to_vec())));
        }
    }
}

#[test]
fn an_input_that_ends_inside_the_header() {
    let setup = Setup::new(&[("size", "2"), ("header", "10")]);
    for split in 1..4 {
        let outcome = decode_split::<Fixed>(&setup, b"head", &[split]);
        let message = "expected 6 more bytes of the header, found the end of the input; the object \
                       is cut short, or the option `header` is not its size";
        assert_eq!(outcome.errors, [(3, 0, message.to_owned())]);
    }
    let outcome = assert_any_split::<Fixed>(&setup, b"headhead!!", &[1; 10]);
    assert_eq!((outcome.records.len(), outcome.errors.len()), (0, 0));
}

#[test]
fn an_input_that_ends_inside_a_record() {
    let setup = Setup::new(&[("size", "4"), ("header", "1")]);
    let outcome = assert_any_split::<Fixed>(&setup, b"haaaabb", &[1; 7]);
    assert_eq!(outcome.records, [[Some(b"aaaa".to_vec())]]);
    assert_eq!(outcome.errors, [(5, 0, "the input ends inside a record".to_owned())]);
}

/// The header is skipped even if it is larger than any chunk.
#[test]
fn a_header_of_any_size() {
    let setup =
        Setup { max_record: 4, ..Setup::new(&[("size", "4"), ("header", "18446744073709551615")]) };
    let outcome = assert_any_split::<Fixed>(&setup, &[7; 5000], &[1000; 5]);
    assert_eq!(outcome.errors.len(), 1);
    assert_eq!(outcome.errors[0].0, 4999);
}
