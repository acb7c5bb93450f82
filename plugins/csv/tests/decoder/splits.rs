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

    /// An escape byte that never occurs forces the reference reader.
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

    /// The same test for typed columns, whose fast path converts the values of many rows.
    #[test]
    fn typed_fast_path_and_reference_agree(
        rows in prop::collection::vec(typed_row(), 1..200),
        types in prop::sample::select(&TYPES[..]),
        null: bool,
        crlf: bool,
        comment: bool,
        skip: bool,
        max_record in prop_oneof![3 => Just(1u64 << 20), 1 => 20u64..90],
    ) {
        let end = if crlf { "\r\n" } else { "\n" };
        let input: String = rows.iter().map(|row| row.join(",") + end).collect();
        let mut options = vec![("types", types), ("comment", if comment { "#" } else { "none" })];
        options.extend(null.then_some(("null", "NA,-")));
        let outcome = |options: &[(&str, &str)]| {
            let mut setup = Setup::new(options);
            (setup.skip, setup.max_record) = (skip, max_record);
            decode_whole::<Csv>(&setup, input.as_bytes())
        };
        let fast = outcome(&options);
        options.push(("escape", "\x01"));
        prop_assert_eq!(fast, outcome(&options));
    }
}

/// Types of the columns of [`typed_row`].
const TYPES: [&str; 5] = [
    "utf8,0:int64,1:float64,3:int32,4:boolean",
    "bytes,0:float32,1:float64,3:int64",
    "utf8,0:int64,2:bytes,4:boolean",
    "float64,2:utf8,4:boolean",
    "auto",
];

/// A row whose values usually fit these types.
fn typed_row() -> impl Strategy<Value = Vec<&'static str>> {
    let any = |values: &[&'static str]| prop::sample::select(values.to_vec());
    let rare =
        &["x", "1.5", "\"2\"", "\"a\"\"b\"", "\"a\nb\"", "1e400", " 7 ", "007", "#1", "a\"b", "ä"]
            [..];
    let mixed = move |values: &[&'static str]| prop_oneof![60 => any(values), 1 => any(rare)];
    let row = (
        mixed(&["1", "22", "-333", "9223372036854775807", "+5"]),
        mixed(&["0.5", "1131.2857142857142", "-1e-5", "", "NA", "nan", "12", "\"3.5\""]),
        mixed(&["text", "", "\"a, b\"", "longer text than sixteen bytes", "-", "é"]),
        mixed(&["1", "", "NA", "-70000", "\"8\""]),
        mixed(&["true", "False", "", "-"]),
    );
    let row = row.prop_map(|(a, b, c, d, e)| vec![a, b, c, d, e]);
    let wrong_width = row.clone().prop_map(|row| row[1..].to_vec());
    prop_oneof![80 => row, 1 => wrong_width, 1 => Just(vec![""])]
}
