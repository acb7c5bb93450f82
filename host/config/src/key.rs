//! The kinds of keys: a number in a range, a choice, a flag, free form. Each kind can say what it
//! expects: messages and the test of docs/configuration.md use that text.

use std::time::Duration;

use super::values;

/// What all kinds of keys have in common. `Sync` because keys are statics.
pub(super) trait Key: Sync {
    fn name(&self) -> &'static str;
    /// The valid values, in the words that follow "expected" in a message.
    fn expected(&self) -> String;
    /// The default, as the documentation writes it.
    #[cfg_attr(not(test), expect(dead_code, reason = "for the test of the documentation"))]
    fn default_text(&self) -> String;
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
}

impl<D> Number<D> {
    pub(super) const fn new(
        name: &'static str,
        unit: Unit,
        (min, max): (u64, u64),
        default: D,
    ) -> Number<D> {
        Number { name, unit, min, max, default }
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
}

/// One of a few words, each with the value that it stands for.
pub(super) struct Choice<T: 'static> {
    pub(super) name: &'static str,
    pub(super) words: &'static [(&'static str, T)],
    pub(super) default: T,
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
}

/// `true` or `false`. The default is `false`.
pub(super) struct Flag {
    pub(super) name: &'static str,
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
}

/// A text, a list or a table: what is valid and what the default is, in words.
pub(super) struct FreeForm {
    pub(super) name: &'static str,
    pub(super) expected: &'static str,
    pub(super) default: &'static str,
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
}

/// A key of free form.
pub(super) const fn free_form(
    name: &'static str,
    expected: &'static str,
    default: &'static str,
) -> FreeForm {
    FreeForm { name, expected, default }
}

/// Joins words to "a, b or c".
pub(super) fn one_of(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [only] => only.clone(),
        [others @ .., last] => format!("{} or {last}", others.join(", ")),
    }
}

/// Keys that stand together in several tables.
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
