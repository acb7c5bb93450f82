//! Comparison with the `csv` crate, with options that make both equal: that crate ends rows at
//! every CR, and closes an open quote at the end of the input.

use pipemill_csv::Csv;
use pipemill_plugin::testing::{Setup, decode_whole};
use proptest::prelude::*;

use crate::inputs::nasty;

fn theirs(input: &[u8], comment: bool, double_quote: bool) -> Vec<Vec<Vec<u8>>> {
    let mut reader = csv::ReaderBuilder::new();
    reader.has_headers(false).flexible(true).double_quote(double_quote);
    reader.comment(comment.then_some(b'#'));
    let record = |record: csv::Result<csv::ByteRecord>| {
        record.expect("bytes in memory").iter().map(<[u8]>::to_vec).collect()
    };
    reader.from_reader(input).into_byte_records().map(record).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, ..ProptestConfig::default() })]

    #[test]
    fn same_as_the_csv_crate(mut input in nasty(), comment: bool, double_quote: bool) {
        // The crate reads a comment without a line end as a record, and ends comments only at LF.
        if comment {
            input.push(b'\n');
            input.retain(|byte| *byte != b'\r');
        }
        let names: Vec<_> = (0..200).map(|column| format!("c{column}")).collect();
        let names = names.join(",");
        let outcome = decode_whole::<Csv>(&Setup::new(&[
            ("types", "bytes"),
            ("lone_cr", "true"),
            ("flexible", "true"),
            ("comment", if comment { "#" } else { "none" }),
            ("double_quote", if double_quote { "true" } else { "false" }),
            ("names", &names),
        ]), &input);
        let mut expected = theirs(&input, comment, double_quote);
        if !outcome.errors.is_empty() {
            prop_assert!(outcome.errors[0].2.contains("closing quote"), "{:?}", outcome.errors);
            expected.truncate(outcome.records.len());
        }
        let found: Vec<Vec<Vec<u8>>> =
            outcome.records.into_iter().map(|row| row.into_iter().flatten().collect()).collect();
        prop_assert_eq!(found, expected);
    }
}
