//! The kinds of keys: a number in a range, a choice, a flag, free form. Each kind can say what it
//! expects, in words for messages and docs/configuration.md, and as a [`Shape`] for the schema.

use std::time::Duration;

use super::values;

/// The common interface of all kinds of keys. `Sync` because keys are statics.
pub(super) trait Key: Sync {
    fn name(&self) -> &'static str;
    /// The valid values, in the words that follow "expected" in a message.
    fn expected(&self) -> String;
    /// The default, as the documentation writes it.
    fn default_text(&self) -> String;
    /// The meaning of the key, in Markdown. Links are those of a page in docs/.
    fn doc(&self) -> &'static str;
    /// The valid values, without rules that depend on other keys.
    fn shape(&self) -> Shape;
}

/// The default in the documentation of a key that must be set.
pub(super) const REQUIRED: &str = "required";

/// The valid values of a key.
#[derive(Clone)]
pub(super) enum Shape {
    /// A number in this range, both ends included.
    Number(Unit, u64, u64),
    /// One of these words.
    Words(Vec<&'static str>),
    Flag,
    /// The word `true`.
    True,
    /// A text that matches this regular expression.
    Text(&'static str),
    /// One such text, or a list of one or more, up to this number.
    Texts(&'static str, Option<usize>),
    /// A list of whole numbers and of texts that match this regular expression.
    NumbersAndTexts(&'static str),
    Table(&'static Table),
    /// A list of tables, one or more.
    Tables(&'static Table),
    /// A table of strings, whole numbers, true and false: the decoder knows its keys.
    Options,
    /// A table of channels with their weights.
    Weights,
    /// A value that one of these two keys accepts.
    Either(&'static dyn Key, &'static dyn Key),
}

/// The unit of a number, and how the number is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Count,
    /// Bytes, written with a unit: `"4MiB"`.
    Size,
    /// Milliseconds, written with a unit: `"10s"`.
    Time,
    /// Like `Time`, or `"forever"`.
    TimeOrForever,
}

/// A number in a range, both ends included. `D` is the type of its default: a `u64`, or a text for
/// the documentation if there is no default or it depends on other keys.
pub(super) struct Number<D> {
    pub(super) name: &'static str,
    pub(super) unit: Unit,
    pub(super) min: u64,
    pub(super) max: u64,
    pub(super) default: D,
    doc: &'static str,
}

impl<D> Number<D> {
    pub(super) const fn new(
        name: &'static str,
        unit: Unit,
        (min, max): (u64, u64),
        default: D,
    ) -> Number<D> {
        Number { name, unit, min, max, default, doc: "" }
    }

    /// The key with its documentation.
    pub(super) const fn doc(mut self, doc: &'static str) -> Number<D> {
        self.doc = doc;
        self
    }

    /// The value as the file writes it, without quotes.
    pub(super) fn show(&self, value: u64) -> String {
        match self.unit {
            Unit::Count => value.to_string(),
            Unit::Size => values::show_size(value),
            Unit::Time | Unit::TimeOrForever => values::show_duration(Duration::from_millis(value)),
        }
    }

    /// The range in words: "a size from 64KiB to 1GiB".
    pub(super) fn range(&self) -> String {
        let (noun, alternative) = match self.unit {
            Unit::Count => ("a whole number", ""),
            Unit::Size => ("a size", ""),
            Unit::Time => ("a time", ""),
            Unit::TimeOrForever => ("a time", " or \"forever\""),
        };
        format!("{noun} from {} to {}{alternative}", self.show(self.min), self.show(self.max))
    }
}

impl Key for Number<u64> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn expected(&self) -> String {
        self.range()
    }

    fn default_text(&self) -> String {
        let value = self.show(self.default);
        if self.unit == Unit::Count { format!("`{value}`") } else { format!("`\"{value}\"`") }
    }

    fn doc(&self) -> &'static str {
        self.doc
    }

    fn shape(&self) -> Shape {
        Shape::Number(self.unit, self.min, self.max)
    }
}

impl Key for Number<&'static str> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn expected(&self) -> String {
        self.range()
    }

    fn default_text(&self) -> String {
        self.default.to_owned()
    }

    fn doc(&self) -> &'static str {
        self.doc
    }

    fn shape(&self) -> Shape {
        Shape::Number(self.unit, self.min, self.max)
    }
}

/// One of a few words, each with the value that it stands for.
pub(super) struct Choice<T: 'static> {
    pub(super) name: &'static str,
    pub(super) words: &'static [(&'static str, T)],
    pub(super) default: T,
    pub(super) doc: &'static str,
}

impl<T: Copy + PartialEq> Choice<T> {
    /// The word for a value.
    pub(super) fn word(&self, value: T) -> &'static str {
        let found = self.words.iter().find(|(_, meaning)| *meaning == value);
        found.map_or("", |(word, _)| word)
    }
}

impl<T: Copy + PartialEq + Sync> Key for Choice<T> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn expected(&self) -> String {
        let words: Vec<_> = self.words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        one_of(&words)
    }

    fn default_text(&self) -> String {
        format!("`\"{}\"`", self.word(self.default))
    }

    fn doc(&self) -> &'static str {
        self.doc
    }

    fn shape(&self) -> Shape {
        Shape::Words(self.words.iter().map(|(word, _)| *word).collect())
    }
}

/// `true` or `false`. The default is `false`.
pub(super) struct Flag {
    pub(super) name: &'static str,
    pub(super) doc: &'static str,
}

impl Key for Flag {
    fn name(&self) -> &'static str {
        self.name
    }

    fn expected(&self) -> String {
        "true or false".to_owned()
    }

    fn default_text(&self) -> String {
        "`false`".to_owned()
    }

    fn doc(&self) -> &'static str {
        self.doc
    }

    fn shape(&self) -> Shape {
        Shape::Flag
    }
}

/// A text, a list or a table: what is valid and what the default is, in words.
pub(super) struct FreeForm {
    pub(super) name: &'static str,
    pub(super) expected: &'static str,
    pub(super) default: &'static str,
    shape: Shape,
    doc: &'static str,
}

impl FreeForm {
    /// The key with its documentation.
    pub(super) const fn doc(mut self, doc: &'static str) -> FreeForm {
        self.doc = doc;
        self
    }
}

impl Key for FreeForm {
    fn name(&self) -> &'static str {
        self.name
    }

    fn expected(&self) -> String {
        self.expected.to_owned()
    }

    fn default_text(&self) -> String {
        self.default.to_owned()
    }

    fn doc(&self) -> &'static str {
        self.doc
    }

    fn shape(&self) -> Shape {
        self.shape.clone()
    }
}

/// A key of free form.
pub(super) const fn free_form(
    name: &'static str,
    expected: &'static str,
    default: &'static str,
    shape: Shape,
) -> FreeForm {
    FreeForm { name, expected, default, shape, doc: "" }
}

/// Joins words to "a, b or c".
pub(super) fn one_of(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [only] => only.clone(),
        [others @ .., last] => format!("{} or {last}", others.join(", ")),
    }
}

/// Keys that belong together in several tables.
pub(super) type KeyGroup = &'static [&'static dyn Key];

/// A table of the file: its name in messages, and its keys in the order of the documentation.
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) groups: &'static [KeyGroup],
}

impl Table {
    pub(super) fn keys(&self) -> Vec<&'static dyn Key> {
        self.groups.concat()
    }

    pub(super) fn names(&self) -> Vec<&'static str> {
        self.keys().iter().map(|key| key.name()).collect()
    }
}
