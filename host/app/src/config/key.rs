//! The kinds of keys that the file can have: a number in a range, a choice, a flag, free text. Each
//! knows how to say what it expects, to an operator and to the documentation.

use std::time::Duration;

use super::values;

/// What all kinds of keys have in common. `Sync` because they are statics.
pub(super) trait Key: Sync {
    fn name(&self) -> &'static str;
    /// What may stand there, as it follows "expected".
    fn expected(&self) -> String;
    /// What holds if it is left out, for the documentation.
    #[cfg_attr(not(test), expect(dead_code, reason = "for the check of the documentation"))]
    fn default_text(&self) -> String;
}

/// How a number is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Count,
    /// Bytes, written with their unit.
    Size,
    /// Milliseconds, written with their unit.
    Time,
    /// As `Time`, or "forever".
    TimeOrForever,
}

/// A number in a range, both ends included. `D` is its default: a `u64`, or words for the
/// documentation where it has none or depends on other keys.
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

    pub(super) fn show(&self, value: u64) -> String {
        match self.unit {
            Unit::Count => value.to_string(),
            Unit::Size => values::show_size(value),
            Unit::Time | Unit::TimeOrForever => values::show_duration(Duration::from_millis(value)),
        }
    }

    pub(super) fn range(&self) -> String {
        let (what, or) = match self.unit {
            Unit::Count => ("a whole number", ""),
            Unit::Size => ("a size", ""),
            Unit::Time => ("a time", ""),
            Unit::TimeOrForever => ("a time", " or \"forever\""),
        };
        format!("{what} from {} to {}{or}", self.show(self.min), self.show(self.max))
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

/// One of a few words, and what each stands for.
pub(super) struct Choice<T: 'static> {
    pub(super) name: &'static str,
    pub(super) words: &'static [(&'static str, T)],
    pub(super) default: T,
}

impl<T: Copy + PartialEq> Choice<T> {
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

/// `true` or `false`; `false` if left out.
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

/// Free text or a table: what it is, in words, and what holds without it.
pub(super) struct Free {
    pub(super) name: &'static str,
    pub(super) expected: &'static str,
    pub(super) default: &'static str,
}

impl Key for Free {
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

pub(super) const fn free(
    name: &'static str,
    expected: &'static str,
    default: &'static str,
) -> Free {
    Free { name, expected, default }
}

/// `a, b or c`.
pub(super) fn one_of(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [only] => only.clone(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}

/// A table of the file: how a person calls it, and its keys, in groups that may be named elsewhere, in the order of the
/// documentation.
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) groups: &'static [&'static [&'static dyn Key]],
}

impl Table {
    pub(super) fn keys(&self) -> Vec<&'static dyn Key> {
        self.groups.concat()
    }

    pub(super) fn names(&self) -> Vec<&'static str> {
        self.keys().iter().map(|key| key.name()).collect()
    }
}
