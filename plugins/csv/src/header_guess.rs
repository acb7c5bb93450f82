//! Decides whether the first row of an object is a header, for `header = "auto"`: the decision is
//! right, or the object is refused.
//!
//! **A header** has text above a column of numbers or booleans: if it were a record, the column
//! would be text. **A record** has numbers. If the first row has both, or its numbers look like
//! names (years, 0, 1, 2, …, `inf`), it can't be decided, unless everything suggests a header.

use pipemill_parsing::numbers::{Number, trimmed};
use pipemill_plugin::Scalar;

use crate::chunk::shown;
use crate::guess::{Guess, is_null_word};

/// The first row, and the rows below it.
pub(crate) struct FirstRows<'a> {
    /// The values of the first row.
    pub(crate) first: &'a [Vec<u8>],
    /// The kind of each value of the first row.
    pub(crate) first_guesses: &'a [Guess],
    /// The kind of the column below it.
    pub(crate) below: &'a [Guess],
    /// The number of rows, with the first.
    pub(crate) rows: u64,
}

impl FirstRows<'_> {
    /// Whether the first row is a header.
    ///
    /// # Errors
    /// It can't be decided. The error is a message for the operator.
    pub(crate) fn has_header(&self) -> Result<bool, String> {
        let columns = 0..self.first.len();
        let numbers: Vec<_> = columns.clone().filter(|column| self.is_number(*column)).collect();
        let names: Vec<_> = columns.filter(|column| self.is_name(*column)).collect();
        match (names.first(), numbers.first()) {
            (None, None) => {
                let rows = if self.rows == 1 { "there is one row" } else { "all columns are text" };
                Err(cant_tell(&format!("because {rows}")))
            }
            (Some(_), None) => Ok(true),
            (None, Some(_)) if !self.look_like_names(&numbers) => Ok(false),
            (None, Some(number)) => Err(cant_tell(&format!(
                "because its numbers may be names, such as {}",
                shown(&self.first[*number])
            ))),
            (Some(name), Some(number)) => {
                let is_word = |column: &usize| !is_null_word(trimmed(&self.first[*column]));
                if names.iter().all(is_word) && self.look_like_names(&numbers) {
                    return Ok(true);
                }
                Err(self.both(*name, *number))
            }
        }
    }

    /// The refusal of a first row with a value of each kind.
    fn both(&self, name: usize, number: usize) -> String {
        let text = trimmed(&self.first[name]);
        let hint = match is_null_word(text) {
            true => {
                format!("; if {} means that there is none, set null to it", shown(text))
            }
            false => String::new(),
        };
        let reason = format!(
            "because {} stands above {}, as a name does, and {} is {}, as in a record",
            shown(text),
            self.below[name].scalar().word(),
            shown(&self.first[number]),
            self.first_guesses[number].scalar().word(),
        );
        format!("{}{hint}", cant_tell(&reason))
    }

    /// Whether the value is a number or a boolean.
    fn is_number(&self, column: usize) -> bool {
        self.first_guesses[column].is_no_word()
    }

    /// Whether the value is text which, in a record, would make a column of another type text.
    fn is_name(&self, column: usize) -> bool {
        let (first, below) = (self.first_guesses[column], self.below[column]);
        first.seen && !first.is_no_word() && below.scalar() != Scalar::Utf8
    }

    /// Whether the numbers of the first row may be names. `numbers` are their columns.
    fn look_like_names(&self, numbers: &[usize]) -> bool {
        let values: Vec<_> = numbers.iter().filter_map(|column| self.value(*column)).collect();
        let others = numbers.iter().filter(|column| self.value(**column).is_none());
        let odd = |column: &usize| self.is_odd(*column);
        let all_columns = self.first.len() - usize::from(!self.first_guesses[0].seen);
        let is_run = is_sequence(&values)
            || matches!(values[..], [0.0] | [0.0, 1.0]) && numbers.len() == all_columns
            || values.len() > 2
                && are_distinct(&values)
                && numbers.iter().all(|column| self.is_integer_above_floats(*column));
        others.clone().all(odd) && (is_run || numbers.iter().all(odd))
    }

    /// The finite number in the first row.
    fn value(&self, column: usize) -> Option<f64> {
        f64::parse(trimmed(&self.first[column])).filter(|value| value.is_finite())
    }

    /// Whether the value would be unusual in a record: `inf` or `nan`, a boolean above other
    /// values, a year above numbers that are not years.
    fn is_odd(&self, column: usize) -> bool {
        let (first, below) = (self.first_guesses[column], self.below[column]);
        match first.scalar() {
            Scalar::Boolean => below.seen && below.scalar() != Scalar::Boolean,
            Scalar::Int64 => first.are_years() && below.seen && !below.are_years(),
            _ => self.value(column).is_none(),
        }
    }

    fn is_integer_above_floats(&self, column: usize) -> bool {
        self.first_guesses[column].scalar() == Scalar::Int64
            && self.below[column].scalar() == Scalar::Float64
    }
}

/// Whether no number occurs twice, as for names.
fn are_distinct(values: &[f64]) -> bool {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.windows(2).all(|pair| pair[0] != pair[1])
}

/// Whether these are at least three numbers with the same distance: 0, 1, 2 or 2010, 2015, 2020.
fn is_sequence(values: &[f64]) -> bool {
    let [first, second, ..] = values else { return false };
    let step = second - first;
    let is_next = |pair: &[f64]| (pair[1] - pair[0] - step).abs() <= step.abs() * 1e-6;
    values.len() > 2 && step != 0.0 && values.windows(2).all(is_next)
}

fn cant_tell(reason: &str) -> String {
    format!(
        "header = \"auto\" can't tell whether the first row is a header, {reason}: set header = true \
         or header = false"
    )
}
