//! The text of every error message, and where decoding continues.

use pipemill_csv::Csv;
use pipemill_plugin::testing::{Setup, decode_split, decode_whole};

/// The errors of an input when bad rows are skipped. They are the same for every split.
fn bad(options: &[(&str, &str)], max_record: u64, input: &str) -> Vec<(u64, u64, String)> {
    let mut setup = Setup::new(options).skipping();
    setup.max_record = max_record;
    let whole = decode_whole::<Csv>(&setup, input.as_bytes());
    for cut in 0..input.len() {
        assert_eq!(decode_split::<Csv>(&setup, input.as_bytes(), &[cut]), whole, "cut at {cut}");
    }
    whole.errors
}

#[track_caller]
fn one(options: &[(&str, &str)], input: &str, expected: (u64, u64, &str)) {
    let found = bad(options, 1 << 20, input);
    assert_eq!(found, [(expected.0, expected.1, expected.2.to_owned())]);
}

#[test]
fn rows_of_different_widths() {
    let message = "line 4: expected 2 fields, as the first row (line 2) has, found 3; the row goes over 2 \
                   lines, because of its quotes: if quotes are part of the text in this file, set quote \
                   = \"none\"";
    one(&[], "\na,b\nc,d\ne,\"f\n\",g\nh,i\n", (9, 9, message));
    let message = "line 2: expected 2 fields, as the header has, found 1; set flexible = true to take such rows";
    one(&[("header", "true")], "a,b\nc", (4, 1, message));
    let message = "line 1: expected 1 field, as option `names` has, found 2; a delimiter in a value \
                   needs quotes around the value; flexible = true would leave out the fields beyond";
    one(&[("names", "a")], "c,d", (0, 3, message));
}

#[test]
fn values_of_columns() {
    let message = "line 3, column 1 (`price`): expected float32, found \"12,5 \\xe2\\x82\\xac\"";
    let options = [("header", "true"), ("types", "price:float32")];
    one(&options, "id,price\n1,2\n3,\"12,5 €\"\n4,5\n", (13, 13, message));
    let message = "line 1, column 0 (`f0`): expected int32, found \"id\"; if this row is the header, \
                   set header = true";
    one(&[("types", "int32")], "id\n1\n", (0, 3, message));
    let message = "line 2, column 0 (`f0`): expected int32, found \"2147483648\"";
    one(&[("types", "int32")], "1\n2147483648\n", (2, 11, message));
    let long = "9".repeat(50);
    let message = format!("line 2, column 0 (`f0`): expected int64, found \"{}…\"", "9".repeat(40));
    one(&[("types", "int64")], &format!("1\n{long}\n"), (2, 51, &message));
}

/// The row is not cut at the end of its columns.
#[test]
fn another_delimiter_seems_to_be_meant() {
    let message = "line 2, column 0 (`a;b`): expected int32, found \"1;2\"; if `;` separates the \
                   columns, set delimiter = \";\"";
    let options = [("header", "true"), ("types", "int32")];
    one(&options, "a;b\r\n1;2\r\n3\r\n", (5, 5, message));
    let message = "line 1, column 0 (`f0`): expected float32, found \"1\\t2\"; if this row is the \
                   header, set header = true; if tabs separate the columns, set delimiter = \"tab\"";
    one(&[("emit", "dense")], "1\t2\n3\n", (0, 4, message));
    let message = "line 2: expected 1 field, as the header has, found 2; if `;` separates the columns, set delimiter = \";\"";
    one(&[("header", "true")], "city;price\nRome;1,5\nOslo\n", (11, 9, message));
    let message = "line 1: expected 3 fields, as option `names` has, found 1; if `|` separates the columns, set delimiter = \"|\"";
    one(&[("names", "a,b,c")], "1|2|3", (0, 5, message));
    let message = "line 2: expected 3 fields, as the first row (line 1) has, found 2; if `;` separates the columns, set delimiter = \";\"";
    one(&[], "1,5;2,5\n3,5;2\n1,2,3\n", (8, 6, message));
    let message = "line 1: option `columns`: there is no column `b`; the only column is `a;b`; if `;` \
                   separates the columns, set delimiter = \";\"";
    one(&[("header", "true"), ("columns", "b")], "a;b\n1;2\n", (0, 0, message));
    let message = "line 1: option `label`: there is no column `b`; the only column is `a`";
    let options = [("header", "true"), ("emit", "dense"), ("label", "b")];
    one(&options, "a\n1\n", (0, 0, message));
    // The delimiter is right, or the byte is text.
    let message = "line 2, column 1 (`f1`): expected int32, found \"2;3\"";
    one(&[("types", "1:int32")], "x,1\nx,2;3\n", (4, 6, message));
    let message = "line 2, column 0 (`f0`): expected int32, found \"2;3\"";
    one(&[("types", "int32")], "1\n\"2;3\"\n", (2, 6, message));
}

#[test]
fn values_of_a_tensor() {
    let message = "line 2, column 1 (`f1`): expected float32, found an empty field; set empty = \
                   \"nan\" to take it as NaN";
    one(&[("emit", "dense")], "1,2\n3,\n5,6\n", (4, 3, message));
    let message = "line 2, column 0 (`y`): expected float32, found \"cat\"";
    let options = [("emit", "dense"), ("names", "y,a"), ("label", "y")];
    one(&options, "1,2\ncat,3\n", (4, 6, message));
}

#[test]
fn not_utf8() {
    let setup = Setup::new(&[("types", "utf8")]);
    let found = decode_whole::<Csv>(&setup, b"a\nb\xff\xfe\n").errors;
    let message = "line 2, column 0 (`f0`): expected utf8, found \"\\xff\\xfe\" at byte 1 of the value; it looks \
         like Latin-1 (`iconv -f LATIN1 -t UTF-8` converts it); types = \"bytes\" takes it as it is";
    assert_eq!(found, [(2, 0, message.to_owned())]);
}

#[test]
fn open_quote() {
    let message = "line 2: expected a closing quote for the one opened in line 3, found the end of the input; \
         if quotes are part of the text in this file, set quote = \"none\"";
    one(&[], "a,b\n\"c\n\",\"d\ne\n", (4, 10, message));
}

#[test]
fn escape_at_the_end() {
    let message = "line 2: expected a byte after the escape in line 2, found the end of the input";
    one(&[("escape", "\\")], "a\nb\\", (2, 2, message));
}

#[test]
fn rows_that_are_too_long() {
    let message =
        "line 2: the row is larger than max_record (8 bytes); a quote may have been left open";
    let found = bad(&[], 8, "12345678\r\n123456789\r\n1\n");
    assert_eq!(found, [(10, 11, message.to_owned())]);
    let message =
        format!("{message}; if quotes are part of the text in this file, set quote = \"none\"");
    let found = bad(&[], 8, "12345678\n\"2345\n789\nabc\"\n1\n");
    // Decoding continues after the first line end after 8 bytes, although it is in quotes: `abc"`
    // is a row.
    assert_eq!(found, [(9, 10, message.to_owned())]);
}

#[test]
fn invalid_headers() {
    let message = "line 1: columns 0 and 2 are both called `a`, and fields must differ in name; set \
                   rename_duplicates = true, give others by `names`, or leave one out by `columns`";
    one(&[("header", "true")], "a,b,a\n1,2,3\n", (0, 0, message));
    let message = "line 1: option `columns`: there is no column `c`; the 2 columns are: a, b";
    one(&[("header", "true"), ("columns", "c")], "a,b\n1,2\n", (0, 0, message));
    let message = "line 1: option `label`: columns 0 and 1 are both called `a`; use the number";
    let options = [("header", "true"), ("emit", "dense"), ("label", "a")];
    one(&options, "a,a\n1,2\n", (0, 0, message));
}

#[test]
fn a_header_in_a_file_whose_lines_end_at_cr() {
    let message = "line 1: the header has a CR without LF after 3 bytes, \"a,b\"; if lines end at CR \
                   in this file, set lone_cr = true; if it is a part of a name, put the name in quotes";
    one(&[("header", "true")], "a,b\r1,2\r3,4\r", (0, 0, message));
    one(&[("header", "true"), ("names", "x,y")], "a,b\r1,2\r3,4\r", (0, 0, message));
    let options = Setup::new(&[("header", "true"), ("lone_cr", "true")]);
    assert_eq!(decode_whole::<Csv>(&options, b"a,b\r1,2\r3,4\r").records.len(), 2);
    let quoted = decode_whole::<Csv>(&Setup::new(&[("header", "true")]), b"\"a\rb\",c\r\n1,2\r\n");
    assert_eq!((quoted.records.len(), quoted.errors), (1, vec![]));
}

#[test]
fn a_header_that_is_not_utf8() {
    let message = "line 1: expected the name of column 1 in UTF-8, found \"\\xc4rger\"; it looks like \
                   Latin-1 (`iconv -f LATIN1 -t UTF-8` converts it); to leave the header's names out, \
                   give others by `names`";
    let outcome = decode_whole::<Csv>(&Setup::new(&[("header", "true")]), b"a,\xc4rger\n1,2\n");
    assert_eq!(outcome.errors, [(0, 0, message.to_owned())]);
    let message = "line 1: expected the header in UTF-8, found \"\\x1f\\x8b\\x08\\xd0\"; it looks like \
                   gzip: set its compression";
    let outcome =
        decode_whole::<Csv>(&Setup::new(&[("header", "true")]), b"\x1f\x8b\x08\xd0\rabc\n");
    assert_eq!(outcome.errors, [(0, 0, message.to_owned())]);
}
