//! Every split gives the same records as a simple model.

use pipemill_plugin::testing::{Setup, assert_any_split};
use pipemill_tokens::Tokens;
use proptest::prelude::*;

use crate::write::tokens;

const TYPES: [(&str, usize); 4] = [("uint16", 2), ("uint32", 4), ("int32", 4), ("int64", 8)];

proptest! {
    #[test]
    fn records_are_those_of_the_model(
        bytes in 0usize..600,
        (word, width) in prop::sample::select(&TYPES[..]),
        length in 1usize..20,
        header in prop_oneof![Just(0usize), 0usize..50, 0usize..700],
        drop: bool,
        skip: bool,
        pieces in prop::collection::vec(1usize..90, 0..40),
    ) {
        let input = tokens(bytes, 1);
        let tail = if drop { "drop" } else { "error" };
        let (length_word, header_word) = (length.to_string(), header.to_string());
        let options =
            [("length", &*length_word), ("header", &header_word), ("type", word), ("tail", tail)];
        let setup = Setup { skip, ..Setup::new(&options) };
        let outcome = assert_any_split::<Tokens>(&setup, &input, &pieces);
        let size = length * width;
        let body = input.get(header..).unwrap_or_default();
        let records: Vec<_> =
            body.chunks_exact(size).map(|record| vec![Some(record.to_vec())]).collect();
        prop_assert_eq!(&outcome.records, &records);
        let starts: Vec<_> = (0..records.len()).map(|n| (header + n * size) as u64).collect();
        prop_assert_eq!(outcome.starts, starts);
        let left = body.len() % size;
        let error = if bytes < header {
            bytes.checked_sub(1)
        } else if left == 0 || drop && left % width == 0 {
            None
        } else {
            Some(bytes - left)
        };
        let places: Vec<_> = outcome.errors.iter().map(|(at, ..)| *at as usize).collect();
        prop_assert_eq!(places, Vec::from_iter(error));
    }
}
