//! Rows of numbers as one tensor. The fast path, the scanner and the reference reader agree, with
//! all kinds of fields between plain rows, and each number is equal to Rust's.

use pipemill_csv::Csv;
use pipemill_plugin::testing::{Setup, assert_any_split, decode_whole};
use proptest::prelude::*;
use proptest::sample::select;

/// A field, usually a short decimal.
fn field() -> impl Strategy<Value = String> {
    prop_oneof![
        40 => "-?[0-9]{1,4}\\.[0-9]{1,4}",
        10 => "-?[0-9]{1,9}",
        5 => "-?[0-9]{0,9}\\.?[0-9]{0,9}",
        3 => "-?[0-9]{0,20}\\.?[0-9]{0,20}",
        2 => "[-+]?[0-9]\\.[0-9]{1,18}[eE][-+]?[0-9]{1,2}",
        2 => select(vec!["nan", "-inf", "+1.5", " 2.5", "2.5\t", "16777217", "8388608.5"])
            .prop_map(str::to_owned),
        1 => select(vec!["", " ", "\"1.5\"", "1\"", "a", "1-", "--1", "1.2.3", ".", "-", "1\r", "#1"])
            .prop_map(str::to_owned),
        1 => "[ -~]{0,20}",
    ]
}

/// Rows, nearly all of the same width, most of them plain numbers.
fn rows() -> impl Strategy<Value = String> {
    let end = prop_oneof![20 => Just("\n"), 2 => Just("\r\n"), 1 => Just("\n\n"), 1 => Just("\r")];
    let plain = "-?[0-9]{1,3}\\.[0-9]{4}";
    (1usize..14).prop_flat_map(move |width| {
        let row = prop_oneof![
            12 => prop::collection::vec(plain.boxed(), width),
            6 => prop::collection::vec(field().boxed(), width),
            1 => prop::collection::vec(field().boxed(), 0..16),
        ];
        prop::collection::vec((row, end.clone()), 0..40)
            .prop_map(|rows| rows.into_iter().map(|(row, end)| row.join(",") + end).collect())
    })
}

/// The options with which each input is decoded, in addition to `emit`.
const OPTIONS: &[&[(&str, &str)]] = &[
    &[],
    &[("delimiter", "tab")],
    &[("empty", "nan")],
    &[("label", "0")],
    &[("columns", "1,0")],
    &[("columns", "0"), ("label", "1"), ("empty", "nan")],
    &[("flexible", "true")],
    &[("flexible", "true"), ("label", "1"), ("empty", "nan")],
    &[("header", "true"), ("drop_repeated_header", "true")],
    &[("comment", "#"), ("quote", "none")],
    &[("lone_cr", "true")],
    &[("quote", "1")],
    &[("delimiter", ".")],
    &[("delimiter", "-"), ("comment", "2")],
    &[("delimiter", " "), ("flexible", "true")],
];

fn setup(index: usize, skip: bool, max_record: u64) -> Setup {
    let mut setup = Setup::new(OPTIONS[index]);
    setup.options.push(("emit".to_owned(), "dense".to_owned()));
    (setup.skip, setup.max_record) = (skip, max_record);
    setup
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// An escape byte that never occurs forces the reference reader.
    #[test]
    fn all_readers_agree(
        rows in rows(),
        sizes in prop::collection::vec(1usize..700, 0..20),
        index in 0..OPTIONS.len(),
        skip: bool,
        max_record in prop_oneof![4 => Just(1u64 << 20), 1 => 0u64..90],
    ) {
        let mut setup = setup(index, skip, max_record);
        let has = |option| OPTIONS[index].iter().any(|(name, _)| *name == option);
        // The first row must have the columns that the options name.
        let first = rows.lines().find(|row| !row.is_empty()).unwrap_or_default();
        prop_assume!(first.contains(',') || !(has("label") || has("columns")));
        let rows = if index == 1 { rows.replace(',', "\t") } else { rows };
        let outcome = assert_any_split::<Csv>(&setup, rows.as_bytes(), &sizes);
        setup.options.push(("escape".to_owned(), "\x01".to_owned()));
        prop_assert_eq!(outcome, decode_whole::<Csv>(&setup, rows.as_bytes()));
    }

    #[test]
    fn each_number_is_the_nearest(texts in prop::collection::vec("-?[0-9]{0,10}\\.?[0-9]{0,10}", 30..60), width in 1usize..9) {
        let texts: Vec<_> = texts.into_iter().filter(|text| text.parse::<f32>().is_ok()).collect();
        let rows: Vec<_> = texts.chunks_exact(width).collect();
        let file: String = rows.iter().map(|row| row.join(",") + "\n").collect();
        let outcome = decode_whole::<Csv>(&setup(0, false, 1 << 20), file.as_bytes());
        prop_assert_eq!(outcome.errors, vec![]);
        let bits = |text: &String| text.parse::<f32>().expect("filtered").to_le_bytes();
        let expected: Vec<_> =
            rows.iter().map(|row| vec![Some(row.iter().flat_map(bits).collect::<Vec<_>>())]).collect();
        prop_assert_eq!(outcome.records, expected);
    }
}
