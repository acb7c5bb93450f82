//! What the first rows of an object tell: whether the first one is a header, and the type of each
//! column. For `header = "auto"` and `types = "auto"`.
//!
//! **The window** is the first [`MAX_ROWS`] rows of the object, without those that end after
//! [`MAX_BYTES`]; at least two rows, if they are not larger than `max_record` together. It depends
//! only on the object: the decoder waits until all of the window is in the chunk, and emits nothing
//! before.
//!
//! **The next objects** of a channel have the types of the first one: the host passes its schema.

use pipemill_parsing::numbers::{Number, trimmed};
use pipemill_plugin::{Field, Scalar};

use crate::chunk::{Chunk, NextRow};
use crate::dialect::Cell;
use crate::emit::{parse_boolean, value};
use crate::layout::default_name;
use crate::settings::{Header, Settings};

/// Rows of the window.
const MAX_ROWS: u64 = 1000;
/// Bytes of the window.
const MAX_BYTES: u64 = 1 << 20;
/// Rows without which a header can't be told from a record.
const MIN_ROWS: u64 = 2;

/// What the first rows tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Learnt {
    pub(crate) header: bool,
    /// The type of each column.
    pub(crate) types: Vec<Scalar>,
    /// The rows of the window, with the header.
    pub(crate) rows: u64,
}

/// The rows of the window that were read so far. The bytes of these rows are not consumed: they
/// are decoded later.
#[derive(Debug, Default)]
pub(crate) struct Learner {
    /// Where the next row starts, counted from the start of the window.
    at: usize,
    rows: u64,
    /// The values of the first row.
    first: Vec<Vec<u8>>,
    /// What the first row tells.
    first_guesses: Vec<Guess>,
    /// What the rows after the first tell.
    guesses: Vec<Guess>,
}

/// The types that all values of a column have, so far. Values that stand for none don't count.
#[derive(Debug, Clone, Copy)]
struct Guess {
    seen: bool,
    boolean: bool,
    int64: bool,
    float64: bool,
}

impl Default for Guess {
    fn default() -> Self {
        Self { seen: false, boolean: true, int64: true, float64: true }
    }
}

impl Guess {
    /// Takes one value into account.
    fn add(&mut self, text: &[u8], null: &[Vec<u8>]) {
        let text = trimmed(text);
        if text.is_empty() || null.iter().any(|word| word == text) {
            return;
        }
        self.seen = true;
        self.boolean &= parse_boolean(text).is_some();
        let (int64, float64) = numbers(text);
        self.int64 &= int64;
        self.float64 &= float64;
    }

    fn merged(self, other: Self) -> Self {
        Self {
            seen: self.seen || other.seen,
            boolean: self.boolean && other.boolean,
            int64: self.int64 && other.int64,
            float64: self.float64 && other.float64,
        }
    }

    fn scalar(self) -> Scalar {
        match self {
            Self { seen: false, .. } => Scalar::Utf8,
            Self { boolean: true, .. } => Scalar::Boolean,
            Self { int64: true, .. } => Scalar::Int64,
            Self { float64: true, .. } => Scalar::Float64,
            _ => Scalar::Utf8,
        }
    }
}

/// Whether a value is an int64, and whether it is a float64. Digits that are not a number to people
/// are text: `007`, and integers that an int64 can't hold, which a float64 would round.
fn numbers(text: &[u8]) -> (bool, bool) {
    let digits = match text {
        [b'+' | b'-', rest @ ..] => rest,
        all => all,
    };
    if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) {
        let is_number = !matches!(digits, [b'0', _, ..]) && i64::parse(text).is_some();
        return (is_number, is_number);
    }
    (false, f64::parse(text).is_some())
}

impl Learner {
    /// Reads the rows of the window that are in the chunk, in which the window begins at `start`.
    /// `Ok` once the window is complete.
    pub(crate) fn read(
        &mut self,
        chunk: &Chunk,
        start: usize,
        cells: &mut Vec<Cell>,
        null: &[Vec<u8>],
    ) -> bool {
        let limit = MAX_BYTES.min(chunk.max_record);
        let is_outside = |bytes: usize, rows: u64| {
            bytes as u64 > chunk.max_record || bytes as u64 > limit && rows >= MIN_ROWS
        };
        while self.rows < MAX_ROWS {
            match chunk.next_row(start + self.at, cells) {
                Ok(NextRow::Whole { next, .. }) => {
                    if is_outside(next - start, self.rows) {
                        return true;
                    }
                    self.add(chunk, cells, null);
                    self.at = next - start;
                }
                Ok(NextRow::Cut(_)) => {
                    return chunk.end || is_outside(chunk.bytes.len() - start, self.rows);
                }
                // The row is reported when it is decoded.
                Err(_) => return true,
            }
        }
        true
    }

    fn add(&mut self, chunk: &Chunk, cells: &[Cell], null: &[Vec<u8>]) {
        let mut buffer = Vec::new();
        if self.rows == 0 {
            let texts = cells.iter().map(|cell| value(chunk, *cell, &mut buffer).to_vec());
            self.first = texts.collect();
            self.first_guesses = vec![Guess::default(); cells.len()];
            self.guesses = self.first_guesses.clone();
            for (guess, text) in self.first_guesses.iter_mut().zip(&self.first) {
                guess.add(text, null);
            }
        } else {
            for (guess, cell) in self.guesses.iter_mut().zip(cells) {
                guess.add(value(chunk, *cell, &mut buffer), null);
            }
        }
        self.rows += 1;
    }

    /// What the rows tell. `None` if there is no row. The error is a text for the operator.
    pub(crate) fn learnt(&self, settings: &Settings) -> Result<Option<Learnt>, String> {
        if self.rows == 0 {
            return Ok(None);
        }
        let header = match settings.header {
            Header::Yes => true,
            Header::No => false,
            Header::Auto => self.has_header()?,
        };
        let guesses = self.guesses.iter().zip(&self.first_guesses);
        let types = guesses.map(|(rest, first)| {
            let guess = if header { *rest } else { first.merged(*rest) };
            guess.scalar()
        });
        Ok(Some(Learnt { header, types: types.collect(), rows: self.rows }))
    }

    /// The first row is a header if none of its values has the type of the values below it, and at
    /// least one column is not text. If all columns are text, nobody can tell.
    fn has_header(&self) -> Result<bool, String> {
        let (mut some, mut others) = (false, false);
        for (first, rest) in self.first_guesses.iter().zip(&self.guesses) {
            let below = if self.rows == 1 { Scalar::Utf8 } else { rest.scalar() };
            if first.seen && first.scalar() != Scalar::Utf8 {
                // A number or a boolean is no name.
                return Ok(false);
            }
            some |= below != Scalar::Utf8;
            others |= below != Scalar::Utf8 && first.seen;
        }
        if some && others {
            return Ok(true);
        }
        let rows = if self.rows == 1 { "there is one row" } else { "all columns are text" };
        Err(format!(
            "header = \"auto\" can't tell whether the first row is a header, because {rows}: set \
             header = true or header = false"
        ))
    }
}

/// The number of numbers in the field `x` of the records before, with `emit = "dense"`.
pub(crate) fn width_before(before: &[Field]) -> Option<usize> {
    let x = before.iter().find(|field| field.name == "x" && field.scalar == Scalar::Float32)?;
    match x.shape[..] {
        [width] => Some(width as usize),
        _ => None,
    }
}

/// What the fields of the objects before tell of this object, whose first row is `first`. The error
/// is a text for the operator.
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
        // The values of the first row have the types, or some are no text.
        Header::Auto if has_all(&names) => {
            let fits = |(text, scalar): (&Vec<u8>, &Scalar)| {
                let mut guess = Guess::default();
                guess.add(text, &settings.null);
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
    Ok(Learnt { header, types, rows: 1 })
}

/// What was learnt, for the log.
pub(crate) fn told(learnt: &Learnt, fields: &[pipemill_plugin::Field]) -> String {
    /// Fields that are named.
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
            let learnt = Learnt { header, types: Vec::new(), rows };
            assert_eq!(told(&learnt, &fields), format!("columns by {said}: id int64, x utf8"));
        }
    }
}
