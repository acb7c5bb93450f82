//! Learns from the first rows of an object whether the first one is a header, and the type of each
//! column. For `header = "auto"` and `types = "auto"`.
//!
//! **The window** is the first rows of the object: [`MAX_ROWS`] if its size is known and
//! [`MAX_ROWS_OF_STREAM`] for a pipe, without rows that end after [`MAX_BYTES`]; but at least two
//! rows, if they are not larger than `max_record` together. It depends only on the object: the
//! decoder waits until the window is completely in the chunk, and emits nothing before.
//!
//! **The next objects** of a channel have the types of the first one: the host passes its schema.

use pipemill_parsing::numbers::trimmed;
use pipemill_plugin::{Field, Scalar};

use crate::chunk::{Chunk, NextRow, shown, value};
use crate::dialect::Cell;
use crate::guess::{Guess, Obstacle};
use crate::header_guess::FirstRows;
use crate::layout::Layout;
use crate::names::default_name;
use crate::settings::{Header, Settings};
use crate::value_hint;

/// Number of rows of the window, if the object is complete. Waiting for them costs nothing.
pub(crate) const MAX_ROWS: u64 = 20_480;
/// Number of rows of the window, if the object may be a pipe, whose rows may come slowly.
pub(crate) const MAX_ROWS_OF_STREAM: u64 = 1000;
/// Size of the window in bytes.
const MAX_BYTES: u64 = 1 << 20;
/// Smallest number of rows with which a header can be distinguished from a record.
const MIN_ROWS: u64 = 2;

/// The facts that the first rows show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Learnt {
    pub(crate) header: bool,
    /// The type of each column.
    pub(crate) types: Vec<Scalar>,
    /// The rows of the window, with the header.
    pub(crate) rows: u64,
    /// The columns that have no value in the window.
    pub(crate) empty: Vec<usize>,
    /// The columns that are text, although people read their values as numbers: the reason, and
    /// what to do.
    pub(crate) obstacles: Vec<(usize, String)>,
    /// Whether the object has no more rows than the window.
    pub(crate) is_whole: bool,
}

/// The rows of the window that were read so far. The bytes of these rows are not consumed: they are
/// decoded later.
#[derive(Debug)]
pub(crate) struct Learner {
    /// Largest number of rows of the window.
    max_rows: u64,
    /// Whether the object ends with the window.
    is_whole: bool,
    /// The row that can't be read, if that ended the window.
    bad_row: Option<usize>,
    /// The start of the next row, counted from the start of the window.
    at: usize,
    rows: u64,
    /// The values of the first row.
    first: Vec<Vec<u8>>,
    /// The facts that the first row shows.
    first_guesses: Vec<Guess>,
    /// The facts that the rows after the first show.
    guesses: Vec<Guess>,
    /// The first word of each column that many files use for an absent value.
    null_words: Vec<Vec<u8>>,
}

impl Learner {
    /// A window of at most this many rows.
    pub(crate) fn new(max_rows: u64) -> Self {
        Self {
            max_rows,
            is_whole: false,
            bad_row: None,
            at: 0,
            rows: 0,
            first: Vec::new(),
            first_guesses: Vec::new(),
            guesses: Vec::new(),
            null_words: Vec::new(),
        }
    }

    /// Starts over: the row after a bad one is the first.
    pub(crate) fn reset(&mut self) {
        *self = Self::new(self.max_rows);
    }

    /// The row that ended the window because it can't be read, counted from the window's start.
    pub(crate) fn bad_row(&self) -> Option<usize> {
        self.bad_row
    }

    /// Reads the rows of the window that are in the chunk, in which the window begins at `start`.
    /// Returns `Ok` once the window is complete.
    pub(crate) fn read(
        &mut self,
        chunk: &Chunk,
        start: usize,
        cells: &mut Vec<Cell>,
        settings: &Settings,
    ) -> bool {
        let limit = MAX_BYTES.min(chunk.max_record);
        let is_outside = |bytes: usize, rows: u64| {
            bytes as u64 > chunk.max_record || bytes as u64 > limit && rows >= MIN_ROWS
        };
        while self.rows < self.max_rows {
            match chunk.next_row(start + self.at, cells) {
                Ok(NextRow::Whole { next, .. }) => {
                    if is_outside(next - start, self.rows) {
                        return true;
                    }
                    self.add(chunk, cells, settings);
                    self.at = next - start;
                }
                Ok(NextRow::Cut(_)) => {
                    let is_outside = is_outside(chunk.bytes.len() - start, self.rows);
                    self.is_whole = chunk.end && !is_outside;
                    return chunk.end || is_outside;
                }
                Err(_) => {
                    let text = chunk.text_after_quote(start + self.at, cells);
                    if text.is_some_and(|text| !is_outside(text + 1 - start, self.rows)) {
                        self.bad_row = Some(self.at);
                    }
                    // Other errors are reported when the row is decoded.
                    return true;
                }
            }
        }
        true
    }

    fn add(&mut self, chunk: &Chunk, cells: &[Cell], settings: &Settings) {
        let mut buffer = Vec::new();
        if self.rows == 0 {
            let texts = cells.iter().map(|cell| value(chunk, *cell, &mut buffer).to_vec());
            self.first = texts.collect();
            self.first_guesses = vec![Guess::default(); cells.len()];
            self.guesses = self.first_guesses.clone();
            self.null_words = vec![Vec::new(); cells.len()];
            for (column, text) in self.first.iter().enumerate() {
                self.first_guesses[column].add(text, settings);
                if self.first_guesses[column].has_null_word() {
                    self.null_words[column] = trimmed(text).to_vec();
                }
            }
        } else {
            for (column, (guess, cell)) in self.guesses.iter_mut().zip(cells).enumerate() {
                let (text, had) = (value(chunk, *cell, &mut buffer), guess.has_null_word());
                guess.add(text, settings);
                if guess.has_null_word() && !had {
                    self.null_words[column] = trimmed(text).to_vec();
                }
            }
        }
        self.rows += 1;
    }

    /// The facts that the rows show. `None` if there is no row. The error is a message for the
    /// operator.
    pub(crate) fn learnt(&self, settings: &Settings) -> Result<Option<Learnt>, String> {
        if self.rows == 0 {
            return Ok(None);
        }
        let header = match settings.header {
            Header::Yes => true,
            Header::No => false,
            Header::Auto => {
                let unseen = vec![Guess::default(); self.guesses.len()];
                let below = if self.rows == 1 { &unseen } else { &self.guesses };
                let Self { first, first_guesses, rows, .. } = self;
                FirstRows { first, first_guesses, below, rows: *rows }.has_header()?
            }
        };
        let guesses = self.guesses.iter().zip(&self.first_guesses);
        let all = guesses.map(|(rest, first)| if header { *rest } else { first.merged(*rest) });
        let all: Vec<_> = all.collect();
        Ok(Some(Learnt {
            header,
            types: all.iter().map(|guess| guess.scalar()).collect(),
            rows: self.rows,
            empty: (0..all.len()).filter(|column| !all[*column].seen).collect(),
            obstacles: (0..all.len())
                .filter_map(|column| {
                    Some((column, self.told(all[column].obstacle()?, column, settings)))
                })
                .collect(),
            is_whole: self.is_whole,
        }))
    }
}

impl Learner {
    /// The reason why the column is text, and what to do.
    fn told(&self, obstacle: Obstacle, column: usize, settings: &Settings) -> String {
        let comma = "set decimal = \",\" if the comma is the point";
        match obstacle {
            Obstacle::DecimalCommas => format!("it has decimal commas: {comma}"),
            Obstacle::Thousands => {
                format!("it has separators of thousands: rewrite such numbers, or {comma}")
            }
            Obstacle::NullWord => {
                let word = &self.null_words[column];
                format!(
                    "it has {}: if that means that there is none, set {}",
                    shown(word),
                    value_hint::null_with(&settings.null, word)
                )
            }
        }
    }
}

/// The number of numbers in the field `x` of earlier records, with `emit = "dense"`.
pub(crate) fn width_before(before: &[Field]) -> Option<usize> {
    let x = before.iter().find(|field| field.name == "x" && field.scalar == Scalar::Float32)?;
    match x.shape[..] {
        [width] => Some(width as usize),
        _ => None,
    }
}

/// The facts that the fields of earlier objects show about this one, whose first row is `first`.
/// The error is a message for the operator.
pub(crate) fn of_fields_before(
    before: &[Field],
    settings: &Settings,
    first: &[Vec<u8>],
) -> Result<Learnt, String> {
    let in_row: Vec<_> = first
        .iter()
        .enumerate()
        .map(|(column, name)| match &**name {
            [] => default_name(column),
            name => String::from_utf8_lossy(name).into_owned(),
        })
        .collect();
    let names: Vec<_> = match &settings.names {
        Some(names) => names.clone(),
        None => (0..first.len()).map(default_name).collect(),
    };
    let type_of = |names: &[String]| -> Vec<Scalar> {
        let find = |name: &String| before.iter().find(|field| field.name == *name);
        names.iter().map(|name| find(name).map_or(Scalar::Utf8, |field| field.scalar)).collect()
    };
    let has_all = |names: &[String]| before.iter().all(|field| names.contains(&field.name));
    let header = match settings.header {
        Header::Yes => true,
        Header::No => false,
        Header::Auto if settings.names.is_none() && has_all(&in_row) => true,
        // The values of the first row have the types, or some are not text.
        Header::Auto if has_all(&names) => {
            let fits = |(text, scalar): (&Vec<u8>, &Scalar)| {
                let mut guess = Guess::default();
                guess.add(text, settings);
                !guess.seen || *scalar == Scalar::Utf8 || guess.scalar() != Scalar::Utf8
            };
            settings.names.is_some() && !first.iter().zip(&type_of(&names)).all(fits)
        }
        Header::Auto => {
            let expected: Vec<_> =
                before.iter().take(20).map(|field| field.name.as_str()).collect();
            return Err(format!(
                "expected a header with the columns of the objects before: {}; if this object has no \
                 header, read it in another channel",
                expected.join(", ")
            ));
        }
    };
    let types = match (&settings.names, header) {
        (None, true) => type_of(&in_row),
        _ => type_of(&names),
    };
    Ok(Learnt { header, types, rows: 1, is_whole: false, ..Learnt::default() })
}

/// A text for the log: the learnt facts.
pub(crate) fn told(learnt: &Learnt, fields: &[pipemill_plugin::Field]) -> String {
    /// Number of fields that are named.
    const SHOWN: usize = 20;
    let shown: Vec<_> = fields
        .iter()
        .take(SHOWN)
        .map(|field| format!("{} {}", field.name, field.scalar.word()))
        .collect();
    let more = match fields.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let header = if learnt.header { "the first one is a header" } else { "none is a header" };
    let rows = match learnt.rows {
        1 if learnt.header => "the first row, which is a header".to_owned(),
        1 => "the first row, which is no header".to_owned(),
        rows => format!("the first {rows} rows, of which {header}"),
    };
    format!("columns by {rows}: {}{more}", shown.join(", "))
}

/// The warnings about columns that may be text only because of what the first rows have, or lack.
pub(crate) fn warnings(learnt: &Learnt, layout: &Layout) -> Vec<String> {
    /// Number of columns with such a warning.
    const SHOWN: usize = 10;
    let is_learnt =
        |column: usize| layout.picks.iter().any(|pick| pick.column == column && pick.is_learnt);
    let obstacles = learnt.obstacles.iter().filter(|(column, _)| is_learnt(*column));
    let told = obstacles.take(SHOWN).map(|(column, why)| {
        format!("column {column} (`{}`) is text, because {why}", layout.names[*column])
    });
    told_of_empty(learnt, layout).into_iter().chain(told).collect()
}

/// The warning about columns that are text only because they have no value in the first rows.
fn told_of_empty(learnt: &Learnt, layout: &Layout) -> Option<String> {
    /// Number of columns that are named.
    const SHOWN: usize = 20;
    let is_learnt = |column: &&usize| {
        let pick = layout.picks.iter().find(|pick| pick.column == **column);
        pick.is_some_and(|pick| pick.is_learnt)
    };
    let empty: Vec<_> = learnt.empty.iter().filter(is_learnt).collect();
    let records = learnt.rows - u64::from(learnt.header);
    if empty.is_empty() || records == 0 {
        return None;
    }
    let shown: Vec<_> =
        empty.iter().take(SHOWN).map(|column| format!("`{}`", layout.names[**column])).collect();
    let more = match empty.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let name = layout.name_in_types(*empty[0]);
    Some(format!(
        "no value in the first {records} records, so text: {}{more}; if they have numbers later, say \
         so, as in types = \"auto,{name}:float64\"",
        shown.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use pipemill_plugin::Field;

    use super::*;

    #[test]
    fn what_was_learnt_is_told_in_words() {
        let fields = [Field::new("id", Scalar::Int64), Field::new("x", Scalar::Utf8)];
        for (header, rows, said) in [
            (true, 1, "the first row, which is a header"),
            (false, 1, "the first row, which is no header"),
            (true, 2, "the first 2 rows, of which the first one is a header"),
            (false, 1000, "the first 1000 rows, of which none is a header"),
        ] {
            let learnt = Learnt { header, rows, ..Learnt::default() };
            assert_eq!(told(&learnt, &fields), format!("columns by {said}: id int64, x utf8"));
        }
    }
}
