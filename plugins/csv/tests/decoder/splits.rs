//! Every split of an input gives the same records, errors and offsets.

use pipemill_csv::Csv;
use pipemill_plugin::testing::{Setup, assert_any_split, decode_split, decode_whole};
use proptest::prelude::*;

use crate::inputs::{damaged_table, nasty, table, write};

/// The options with which each input is decoded.
const OPTIONS: &[&[(&str, &str)]] = &[
    &[],
    &[("flexible", "true")],
    &[("emit", "row")],
    &[("emit", "row"), ("comment", "#"), ("header", "true"), ("drop_repeated_header", "true")],
    &[("header", "true"), ("comment", "#")],
    &[("names", "a,b"), ("lone_cr", "true")],
    &[("flexible", "true"), ("escape", "\\"), ("columns", "0")],
    &[("escape", "\\"), ("double_quote", "false"), ("comment", "#"), ("flexible", "true")],
    &[("quote", "none"), ("lone_cr", "true"), ("flexible", "true")],
    &[("types", "bytes")],
    &[("types", "utf8"), ("flexible", "true")],
    &[("types", "auto"), ("header", "auto"), ("flexible", "true")],
    &[("types", "auto"), ("header", "auto")],
    &[("types", "auto"), ("null", "NA")],
    &[("types", "auto"), ("names", "a,b")],
    &[("header", "auto")],
    &[("types", "float64"), ("flexible", "true")],
    &[("skip_rows", "1"), ("header", "true"), ("flexible", "true")],
    &[("names", "a,b"), ("header", "true"), ("types", "auto")],
    &[("types", "auto"), ("null", ",1.5"), ("rename_duplicates", "true"), ("header", "true")],
    // Rows that quotes merge.
    &[("delimiter", "tab")],
    &[("delimiter", "tab"), ("flexible", "true"), ("types", "bytes")],
    &[("emit", "dense"), ("header", "true"), ("rename_duplicates", "true")],
    &[("emit", "dense")],
    &[("emit", "dense"), ("header", "auto")],
    &[("emit", "dense"), ("empty", "nan"), ("label", "1")],
    &[("emit", "dense"), ("flexible", "true"), ("empty", "nan"), ("label", "0")],
];

fn setup(index: usize, skip: bool, max_record: u64) -> Setup {
    let mut setup = Setup::new(OPTIONS[index]);
    (setup.skip, setup.max_record) = (skip, max_record);
    setup
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn written_tables_are_read(
        table in table(),
        coins in prop::collection::vec(any::<u8>(), 1..40),
        sizes in prop::collection::vec(1usize..50, 0..20),
    ) {
        let file = write(&table, &coins);
        let outcome = assert_any_split::<Csv>(&Setup::new(&[("types", "bytes")]), &file, &sizes);
        prop_assert_eq!(outcome.errors, vec![]);
        let expected: Vec<Vec<Option<Vec<u8>>>> =
            table.iter().map(|row| row.iter().cloned().map(Some).collect()).collect();
        prop_assert_eq!(outcome.records, expected);
    }

    #[test]
    fn any_split_of_nasty_text(
        input in nasty(),
        sizes in prop::collection::vec(1usize..30, 0..20),
        index in 0..OPTIONS.len(),
        skip: bool,
        max_record in prop_oneof![Just(1u64 << 20), 0u64..90],
    ) {
        assert_any_split::<Csv>(&setup(index, skip, max_record), &input, &sizes);
    }

    #[test]
    fn every_split_of_nasty_text(input in nasty(), index in 0..OPTIONS.len(), skip: bool, max_record in 1u64..200) {
        let setup = setup(index, skip, max_record);
        let whole = decode_whole::<Csv>(&setup, &input);
        for cut in 0..input.len() {
            prop_assert_eq!(&decode_split::<Csv>(&setup, &input, &[cut]), &whole, "cut at {}", cut);
        }
        let bytes = vec![1; input.len()];
        prop_assert_eq!(&decode_split::<Csv>(&setup, &input, &bytes), &whole, "byte by byte");
    }

    #[test]
    fn any_split_of_damaged_tables(
        file in damaged_table(),
        sizes in prop::collection::vec(1usize..50, 0..20),
        index in 0..OPTIONS.len(),
        skip: bool,
    ) {
        assert_any_split::<Csv>(&setup(index, skip, 1 << 20), &file, &sizes);
    }

    /// An escape byte that never comes forces the reference reader.
    #[test]
    fn scanner_and_reference_agree(
        input in prop_oneof![nasty(), damaged_table()],
        lone_cr: bool,
        other_delimiter: bool,
        double_quote: bool,
        emit in 0usize..3,
        comment: bool,
        skip: bool,
        max_record in prop_oneof![Just(1u64 << 20), 0u64..90],
    ) {
        prop_assume!(!input.contains(&1));
        let flag = |on| if on { "true" } else { "false" };
        let mut options = vec![
            ("delimiter", if other_delimiter { "tab" } else { "," }),
            ("lone_cr", flag(lone_cr)),
            ("double_quote", flag(double_quote)),
            ("comment", if comment { "#" } else { "none" }),
        ];
        options.extend([("emit", "row"), ("flexible", "true")].get(emit));
        let outcome = |options: &[(&str, &str)]| {
            let mut setup = Setup::new(options);
            (setup.skip, setup.max_record) = (skip, max_record);
            decode_whole::<Csv>(&setup, &input)
        };
        let fast = outcome(&options);
        options.push(("escape", "\x01"));
        prop_assert_eq!(fast, outcome(&options));
    }
}
