//! The type of a column, by its values.

use pipemill_parsing::numbers::{Number, trimmed};
use pipemill_plugin::Scalar;

use crate::settings::Settings;
use crate::written_numbers::{Written, parse_with_comma};

/// The types that all values of a column have, so far. Values that stand for an absent value don't
/// count.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Guess {
    /// Whether there was a value.
    pub(crate) seen: bool,
    boolean: bool,
    int64: bool,
    float64: bool,
    /// Whether all are integers that may be years.
    years: bool,
    /// Whether all consist of digits, with or without a sign, even if they are not numbers.
    digits: bool,
    /// Whether an integer begins with `+`, as phone numbers do.
    plus: bool,
    /// Whether a number is negative. If so, `+` is a sign.
    minus: bool,
    /// Whether some value is a number, in any notation.
    some_number: bool,
    /// Whether some value is a null word, a number with separators of thousands, a number with a
    /// decimal comma, or another text.
    null_word: bool,
    thousands: bool,
    decimal_comma: bool,
    word: bool,
}

/// The reason why a column of numbers is text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Obstacle {
    DecimalCommas,
    Thousands,
    NullWord,
}

impl Default for Guess {
    fn default() -> Self {
        Self {
            seen: false,
            boolean: true,
            int64: true,
            float64: true,
            years: true,
            digits: true,
            plus: false,
            minus: false,
            some_number: false,
            null_word: false,
            thousands: false,
            decimal_comma: false,
            word: false,
        }
    }
}

impl Guess {
    /// Takes one value into account.
    pub(crate) fn add(&mut self, text: &[u8], settings: &Settings) {
        let text = trimmed(text);
        if text.is_empty() || settings.null.iter().any(|word| word == text) {
            return;
        }
        self.seen = true;
        let boolean = parse_boolean(text).is_some();
        self.boolean &= boolean;
        let (int64, float64) = numbers(text, settings.dialect.decimal_comma);
        self.digits &= is_digits(unsigned(text));
        self.int64 &= int64;
        self.float64 &= float64;
        self.years &= int64 && i64::parse(text).is_some_and(|year| (1700..=2200).contains(&year));
        self.plus |= int64 && text[0] == b'+';
        self.minus |= float64 && text[0] == b'-';
        self.some_number |= float64;
        if !float64 {
            self.add_text(text, boolean);
        }
    }

    /// Classifies a value that is not a number.
    fn add_text(&mut self, text: &[u8], boolean: bool) {
        let written = Written::of(text);
        self.some_number |= written.is_some();
        match written {
            Some(Written::Thousands) => self.thousands = true,
            Some(Written::DecimalComma) => self.decimal_comma = true,
            None if !boolean && is_null_word(text) => self.null_word = true,
            None => self.word = true,
        }
    }

    /// The guess for all values of both.
    pub(crate) fn merged(self, other: Self) -> Self {
        Self {
            seen: self.seen || other.seen,
            boolean: self.boolean && other.boolean,
            int64: self.int64 && other.int64,
            float64: self.float64 && other.float64,
            years: self.years && other.years,
            digits: self.digits && other.digits,
            plus: self.plus || other.plus,
            minus: self.minus || other.minus,
            some_number: self.some_number || other.some_number,
            null_word: self.null_word || other.null_word,
            thousands: self.thousands || other.thousands,
            decimal_comma: self.decimal_comma || other.decimal_comma,
            word: self.word || other.word,
        }
    }

    /// The reason why a column of numbers is text, if it is the only reason.
    pub(crate) fn obstacle(self) -> Option<Obstacle> {
        if self.word || !self.some_number || self.scalar() != Scalar::Utf8 {
            return None;
        }
        match self {
            Self { decimal_comma: true, .. } => Some(Obstacle::DecimalCommas),
            Self { thousands: true, .. } => Some(Obstacle::Thousands),
            Self { null_word: true, .. } => Some(Obstacle::NullWord),
            _ => None,
        }
    }

    /// Whether some value is a word that many files use for an absent value.
    pub(crate) fn has_null_word(self) -> bool {
        self.null_word
    }

    /// The type of the column.
    pub(crate) fn scalar(self) -> Scalar {
        match self {
            Self { seen: false, .. } => Scalar::Utf8,
            Self { boolean: true, .. } => Scalar::Boolean,
            // As a number, it would lose its `+`.
            Self { plus: true, minus: false, .. } => Scalar::Utf8,
            Self { int64: true, .. } => Scalar::Int64,
            Self { float64: true, .. } => Scalar::Float64,
            _ => Scalar::Utf8,
        }
    }

    /// Whether there are values, and none of them is a word: they are numbers, booleans, or digits
    /// that are text, such as `007`.
    pub(crate) fn is_no_word(self) -> bool {
        self.seen && (self.digits || self.scalar() != Scalar::Utf8)
    }

    /// Whether all values may be years.
    pub(crate) fn are_years(self) -> bool {
        self.seen && self.years
    }
}

/// Whether a value is an int64, and whether it is a float64. Digits that people don't read as a
/// number are text: `007`, and integers that don't fit into an int64, which a float64 would round.
fn numbers(text: &[u8], decimal_comma: bool) -> (bool, bool) {
    let digits = unsigned(text);
    if is_digits(digits) {
        let is_number = !matches!(digits, [b'0', _, ..]) && i64::parse(text).is_some();
        return (is_number, is_number);
    }
    let number: Option<f64> = match decimal_comma {
        true => parse_with_comma(text),
        false => f64::parse(text),
    };
    (false, number.is_some())
}

fn unsigned(text: &[u8]) -> &[u8] {
    match text {
        [b'+' | b'-', rest @ ..] => rest,
        all => all,
    }
}

fn is_digits(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_digit)
}

/// Whether a value is one of the words that many files use for an absent value.
pub(crate) fn is_null_word(text: &[u8]) -> bool {
    const WORDS: &[&str] = &[
        "na",
        "n/a",
        "#n/a",
        "<na>",
        "null",
        "none",
        "nil",
        "nan",
        "missing",
        "unknown",
        "n.a.",
        "\\n",
        "-",
        "--",
        "---",
        ".",
        "..",
        "?",
        "*",
        "#null!",
        "#div/0!",
        "#value!",
        "(null)",
        "<null>",
        "void",
        "undefined",
        "not available",
    ];
    let lower = text.to_ascii_lowercase();
    text.is_empty() || WORDS.iter().any(|word| word.as_bytes() == lower)
}

/// The boolean that a value means.
pub(crate) fn parse_boolean(text: &[u8]) -> Option<bool> {
    match text {
        b"true" | b"True" | b"TRUE" => Some(true),
        b"false" | b"False" | b"FALSE" => Some(false),
        _ => None,
    }
}
