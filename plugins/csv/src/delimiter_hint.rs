//! Hints about the option `delimiter`, for messages about rows that another byte seems to separate.

use std::ops::Range;

use pipemill_parsing::numbers::{Number, trimmed};

use crate::dialect::Dialect;

/// The bytes that separate fields in real files. If a row has several of them, the one that is
/// least likely to be a part of a value comes first.
const DELIMITERS: [u8; 4] = [b'\t', b';', b'|', b','];

/// The hint for a row that has a wrong number of fields, or a value that does not fit its column.
/// `columns` is the expected number of fields, and `named` says that an option gave it. It is empty
/// if nothing suggests another delimiter.
#[cold]
pub(crate) fn of_row(dialect: &Dialect, row: &[u8], columns: usize, named: bool) -> String {
    let is_one_field = parts(dialect, row, dialect.delimiter).count() == 1;
    let suits = |other: &u8| {
        let count = parts(dialect, row, *other).count();
        count > 1
            && (columns == 1 && *other != b','
                || is_one_field && (columns == 1 || named && count == columns)
                || dialect.delimiter == b',' && *other == b';' && are_decimal_commas(dialect, row))
    };
    of_candidate(candidates(dialect).find(suits))
}

/// The hint for an option that names a column which does not exist, in an object with one column of
/// this name.
#[cold]
pub(crate) fn of_only_column(dialect: &Dialect, name: &str) -> String {
    of_candidate(candidates(dialect).find(|other| name.as_bytes().contains(other)))
}

/// The delimiters that are possible with the options.
fn candidates(dialect: &Dialect) -> impl Iterator<Item = u8> {
    let used = [Some(dialect.delimiter), dialect.quote, dialect.escape, dialect.comment];
    DELIMITERS.into_iter().filter(move |other| !used.contains(&Some(*other)))
}

fn of_candidate(delimiter: Option<u8>) -> String {
    match delimiter {
        None => String::new(),
        Some(b'\t') => "; if tabs separate the columns, set delimiter = \"tab\"".to_owned(),
        Some(byte) => {
            let byte = char::from(byte);
            format!("; if `{byte}` separates the columns, set delimiter = \"{byte}\"")
        }
    }
}

/// The parts of a row between these delimiters. A delimiter in quotes is text.
fn parts(dialect: &Dialect, row: &[u8], delimiter: u8) -> impl Iterator<Item = Range<usize>> {
    let quote = dialect.quote;
    let (mut in_quotes, mut start) = (false, 0);
    let ends = row.iter().enumerate().filter_map(move |(at, byte)| {
        in_quotes ^= Some(*byte) == quote;
        (!in_quotes && *byte == delimiter).then_some(at)
    });
    ends.chain([row.len()]).map(move |end| std::mem::replace(&mut start, end + 1)..end)
}

/// Whether a row has only numbers with decimal commas, and `;` between them.
fn are_decimal_commas(dialect: &Dialect, row: &[u8]) -> bool {
    parts(dialect, row, b';').all(|part| {
        let comma_as_point = |byte: &u8| if *byte == b',' { b'.' } else { *byte };
        let number: Vec<_> = trimmed(&row[part]).iter().map(comma_as_point).collect();
        number.is_empty() || f64::parse(&number).is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMA: Dialect = Dialect {
        delimiter: b',',
        quote: Some(b'"'),
        escape: None,
        double_quote: true,
        comment: None,
        lone_cr: false,
        decimal_comma: false,
        text_after_quote: false,
    };

    /// The suggested delimiter.
    fn hinted(dialect: &Dialect, row: &str, columns: usize, named: bool) -> Option<String> {
        let hint = of_row(dialect, row.as_bytes(), columns, named);
        let (_, rest) = hint.split_once("set delimiter = \"")?;
        Some(rest.trim_end_matches('"').to_owned())
    }

    #[track_caller]
    fn is(dialect: &Dialect, row: &str, columns: usize, named: bool, expected: &str) {
        assert_eq!(hinted(dialect, row, columns, named).as_deref(), Some(expected), "{row}");
    }

    #[test]
    fn rows_that_another_byte_separates() {
        for (row, expected) in [("1;2", ";"), ("1\t2", "tab"), ("1|2", "|"), ("a;\"b\"", ";")] {
            is(&COMMA, row, 1, false, expected);
        }
        is(&COMMA, "1,5;2", 1, false, ";");
        is(&COMMA, "1,5\t2;3", 1, false, "tab");
        is(&COMMA, "1;2;3", 3, true, ";");
        is(&COMMA, "1,5;2,5", 3, false, ";");
        is(&COMMA, "-1,5;;2", 2, false, ";");
        let semicolon = Dialect { delimiter: b';', ..COMMA };
        is(&semicolon, "1,2,3", 1, false, ",");
        is(&semicolon, "1,2,3", 3, true, ",");
    }

    #[test]
    fn rows_that_nothing_else_separates() {
        for row in ["12", "\"a;b\"", "\"a,b\tc\"", "1,2", ""] {
            assert_eq!(hinted(&COMMA, row, 1, false), None, "{row}");
        }
        // Other rows have two columns, so the delimiter is right.
        assert_eq!(hinted(&COMMA, "c;d", 2, false), None);
        assert_eq!(hinted(&COMMA, "x;y;z", 2, true), None);
        assert_eq!(hinted(&COMMA, "x,1;2", 2, false), None);
        assert_eq!(hinted(&COMMA, "x,1|2", 2, false), None);
        // There is a decimal comma in a row of several columns.
        let semicolon = Dialect { delimiter: b';', ..COMMA };
        assert_eq!(hinted(&semicolon, "1,5;x", 2, false), None);
        assert_eq!(hinted(&semicolon, "1,5;2", 1, false), None);
        let commented = Dialect { comment: Some(b';'), escape: Some(b'|'), ..COMMA };
        assert_eq!(hinted(&commented, "1;2|3", 1, false), None);
    }
}
