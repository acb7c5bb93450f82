//! Explains why a text is almost a table, but not one: an option of `csv` is missing. The rows are
//! read again with that option, which the refusal then names.

use super::choice::{Refusal, RefusalKind};
use super::dialect::{Dialect, Rows};

/// The reason why rows have different numbers of fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// The first lines begin with this byte, as comments do.
    Comments(u8),
    /// Quotes are part of the text: if quotes have no meaning, it is a table with this delimiter.
    Quotes(u8),
    /// Backslashes escape the next byte.
    Escapes,
    /// The first row has one name less than the rows have fields. These are the names.
    RowNames(Vec<String>),
    /// This number of lines is above a table with this number of columns.
    Preamble(usize, usize),
    /// Some rows have fewer fields than the first.
    ShortRows,
    /// The row in this line, from 1, has more fields than the first: its number of fields, and that
    /// of the first row.
    LongRow(usize, usize, usize),
}

/// The rows of a text delimited by tabs whose quotes are part of the text, as in many corpora: text
/// follows closing quotes, and no quote seems to be escaped.
pub(super) fn text_with_quotes(
    text: &[u8],
    whole: bool,
    all: &[(u8, Rows)],
    dialect: &Dialect,
) -> Option<Obstacle> {
    let is_odd = |(delimiter, rows): &(u8, Rows)| *delimiter == b'\t' && rows.has_text_after_quote;
    let quote = dialect.quote?;
    let has_escapes = text.windows(2).any(|pair| pair == [b'\\', quote]);
    if has_escapes || !all.iter().any(is_odd) {
        return None;
    }
    let rows = Rows::of(text, whole, b'\t', &Dialect { quote: None, ..dialect.clone() });
    rows.table().map(|_| Obstacle::Quotes(b'\t'))
}

/// The obstacle of a text whose rows make no table with any delimiter.
pub(super) fn find(
    text: &[u8],
    whole: bool,
    all: &[(u8, Rows)],
    dialect: &Dialect,
) -> Option<Obstacle> {
    if dialect.flexible {
        return None;
    }
    // The obstacle that another dialect removes, if these rows have different lengths.
    let with = |dialect: &Dialect| {
        let is_bad = |rows: &Rows| rows.uniform().is_none() || rows.has_text_after_quote;
        let table = |(delimiter, _): &(u8, Rows)| {
            let rows = Rows::of(text, whole, *delimiter, dialect);
            (!rows.is_open && rows.table().is_some()).then_some(*delimiter)
        };
        all.iter().filter(|(_, rows)| is_bad(rows)).find_map(table)
    };
    let begins = text[dialect.skipped(text)..].trim_ascii_start().first().copied();
    if let (None, Some(mark @ (b'#' | b'%'))) = (dialect.comment, begins)
        && with(&Dialect { comment: Some(mark), ..dialect.clone() }).is_some()
    {
        return Some(Obstacle::Comments(mark));
    }
    let has_escapes = dialect.escape.is_none() && text.contains(&b'\\');
    if has_escapes && with(&Dialect { escape: Some(b'\\'), ..dialect.clone() }).is_some() {
        return Some(Obstacle::Escapes);
    }
    let has_quotes = dialect.quote.is_some_and(|quote| text.contains(&quote));
    let unquoted = Dialect { quote: None, ..dialect.clone() };
    if let Some(delimiter) = has_quotes.then(|| with(&unquoted)).flatten() {
        return Some(Obstacle::Quotes(delimiter));
    }
    let (delimiter, rows) = &all[0];
    let columns = rows.widths.first().copied().unwrap_or(0);
    let is_named =
        |(above, found): (usize, usize)| above == 1 && columns > 1 && found == columns + 1;
    match rows.above_table() {
        Some(table) if is_named(table) => {
            return Some(Obstacle::RowNames(names(&text[rows.first.clone()], *delimiter, dialect)));
        }
        _ => {}
    }
    let preamble = all.iter().find_map(|(_, rows)| Some((rows, rows.above_table()?)));
    if let Some((rows, (above, columns))) = preamble {
        return Some(Obstacle::Preamble(rows.lines[above], columns));
    }
    if rows.uniform().is_some() || rows.widths.is_empty() || whole && rows.is_open {
        return None;
    }
    let long = rows.widths.iter().position(|width| *width > columns);
    Some(match long {
        Some(row) => Obstacle::LongRow(rows.lines[row] + 1, rows.widths[row], columns),
        None => Obstacle::ShortRows,
    })
}

/// The fields of a row, without their quotes.
fn names(row: &[u8], delimiter: u8, dialect: &Dialect) -> Vec<String> {
    let name = |field: &[u8]| {
        let text = String::from_utf8_lossy(field).trim().to_owned();
        match dialect.quote.map(char::from) {
            Some(quote) => text.trim_matches(quote).to_owned(),
            None => text,
        }
    };
    row.split(|byte| *byte == delimiter).map(name).collect()
}

impl Obstacle {
    /// Describes the obstacle, and the option that removes it.
    pub(super) fn refusal(&self) -> Refusal {
        Refusal::new(RefusalKind::Unsure, self.message(), self.remedy())
    }

    fn message(&self) -> String {
        match self {
            Self::Comments(mark) => {
                format!("its first lines begin with `{}`, and a table follows", char::from(*mark))
            }
            Self::Quotes(_) => {
                "its quotes cut it into rows of different lengths; without them it is a table"
                    .to_owned()
            }
            Self::Escapes => {
                "its rows have different numbers of fields, unless backslashes are escapes"
                    .to_owned()
            }
            Self::RowNames(names) => {
                format!("its first row has {} fields, and each other row one more", names.len())
            }
            Self::Preamble(lines, columns) => {
                let have =
                    if *lines == 1 { "line has".into() } else { format!("{lines} lines have") };
                format!("its first {have} fewer fields than the rows after, which have {columns}")
            }
            Self::ShortRows => "its rows have different numbers of fields".to_owned(),
            Self::LongRow(line, found, first) => format!(
                "its rows have different numbers of fields: the row in line {line} has {found}, \
                 the first one {first}"
            ),
        }
    }

    fn remedy(&self) -> String {
        match self {
            Self::Comments(mark) => {
                let mark = char::from(*mark).to_string();
                let option = say("comment", &mark, &format!("{mark:?}"));
                format!("if these lines are comments, say {option}")
            }
            Self::Quotes(_) => {
                let option = say("quote", "none", "\"none\"");
                format!("if quotes are part of the text, say {option}")
            }
            Self::Escapes => {
                let option = say("escape", "\\", "'\\'");
                format!("if a backslash makes the next byte text, say {option}")
            }
            Self::RowNames(names) => row_names_remedy(names),
            Self::Preamble(lines, _) => {
                let option = say("skip_rows", &lines.to_string(), &lines.to_string());
                format!("if the table begins after that, say {option}")
            }
            Self::ShortRows => {
                let option = say("flexible", "true", "true");
                format!("if some rows lack fields, say {option}; else name another decoder")
            }
            Self::LongRow(..) => {
                "a delimiter in a value needs quotes around the value; if it is no \
                                  table, name another decoder"
                    .to_owned()
            }
        }
    }
}

/// An option as a command line and a file write it.
fn say(option: &str, value: &str, in_file: &str) -> String {
    let shell = match value.contains(['\\', '#', '%']) {
        true => format!("-o '{option}={value}'"),
        false => format!("-o {option}={value}"),
    };
    format!("`{shell}`, in a file `options = {{ {option} = {in_file} }}`")
}

/// The advice for a table whose first column has no name.
fn row_names_remedy(names: &[String]) -> String {
    let is_plain = |name: &String| !name.is_empty() && !name.contains([',', '\'', '"', '`']);
    let all = match names.len() <= 20 && names.iter().all(is_plain) {
        true => format!("row,{}", names.join(",")),
        false => "row,…".to_owned(),
    };
    format!(
        "if the first column has no name, as in R's files, give all names: `-o header=true -o \
         'names={all}'`, in a file `options = {{ header = true, names = \"{all}\" }}`"
    )
}
