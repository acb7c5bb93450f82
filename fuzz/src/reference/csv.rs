//! CSV by the crate `csv`, with options that make both equal: that crate ends rows at every CR, and
//! closes an open quote at the end of the input.

use pipemill_csv::Csv;
use pipemill_plugin::testing::{Setup, decode_whole};

/// Flags of the case: whether there are comments, whether two quotes mean one.
const COMMENT: u8 = 1 << 4;
const DOUBLE_QUOTE: u8 = 1 << 5;
/// Largest number of columns of rows here.
const COLUMNS: usize = 24;

/// Compares the decoder with the crate.
pub(crate) fn compare(input: &[u8], flags: u8) {
    let (comment, double_quote) = (flags & COMMENT != 0, flags & DOUBLE_QUOTE != 0);
    let mut input = input.to_vec();
    // The crate treats DOS's end-of-file bytes as text.
    while input.last() == Some(&0x1a) {
        input.pop();
    }
    // The crate reads a comment without a line end as a record, and ends comments only at LF.
    if comment {
        input.push(b'\n');
        input.retain(|byte| *byte != b'\r');
    }
    let mut expected = by_the_crate(&input, comment, double_quote);
    if expected.iter().any(|row| row.len() > COLUMNS) {
        return;
    }
    let names: Vec<_> = (0..COLUMNS).map(|column| format!("c{column}")).collect();
    let setup = Setup::new(&[
        ("types", "bytes"),
        ("lone_cr", "true"),
        ("flexible", "true"),
        ("comment", if comment { "#" } else { "none" }),
        ("double_quote", if double_quote { "true" } else { "false" }),
        ("names", &names.join(",")),
    ]);
    let outcome = decode_whole::<Csv>(&setup, &input);
    if let Some((_, _, message)) = outcome.errors.first() {
        assert!(message.contains("closing quote"), "{message}");
        expected.truncate(outcome.records.len());
    }
    let fields = |row: Vec<Option<Vec<u8>>>| row.into_iter().flatten().collect();
    let found: Vec<Vec<Vec<u8>>> = outcome.records.into_iter().map(fields).collect();
    assert_eq!(expected, found, "the crate `csv`, then the decoder");
}

fn by_the_crate(input: &[u8], comment: bool, double_quote: bool) -> Vec<Vec<Vec<u8>>> {
    let mut reader = csv::ReaderBuilder::new();
    reader.has_headers(false).flexible(true).double_quote(double_quote);
    reader.comment(comment.then_some(b'#'));
    let records = reader.from_reader(input).into_byte_records();
    let record = |record: csv::Result<csv::ByteRecord>| {
        record.expect("bytes in memory").iter().map(<[u8]>::to_vec).collect()
    };
    records.map(record).collect()
}
