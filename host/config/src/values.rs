//! Reads and writes sizes ("4MiB") and times ("500ms"). It writes the shortest text. Ranges are not
//! checked here.

use std::time::Duration;

use super::digits;

/// The reason why a value is wrong: a fault without its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}; {remedy}")]
pub struct Invalid {
    /// The error's text: what was expected and what was found.
    pub message: String,
    /// What to do. Empty if there is nothing to say.
    pub remedy: String,
}

/// A unit of a scale.
struct ScaleUnit {
    name: &'static str,
    /// The value in the smallest unit of the scale.
    factor: u64,
    /// Spellings that people write by mistake.
    aliases: &'static [&'static str],
}

/// A kind of value that is written with a unit.
struct Scale {
    /// The text that follows "expected" in a message.
    expected: &'static str,
    /// The unit to suggest for a number without a unit.
    usual: &'static str,
    /// All units, from small to large.
    units: &'static [ScaleUnit],
}

static SIZE: Scale = Scale {
    expected: "a size such as \"4MiB\"",
    usual: "MiB",
    units: &[
        ScaleUnit { name: "B", factor: 1, aliases: &["byte", "bytes"] },
        ScaleUnit { name: "KiB", factor: 1 << 10, aliases: &["k", "kb", "ki"] },
        ScaleUnit { name: "MiB", factor: 1 << 20, aliases: &["m", "mb", "mi"] },
        ScaleUnit { name: "GiB", factor: 1 << 30, aliases: &["g", "gb", "gi"] },
        ScaleUnit { name: "TiB", factor: 1 << 40, aliases: &["t", "tb", "ti"] },
    ],
};

static TIME: Scale = Scale {
    expected: "a time such as \"10s\"",
    usual: "s",
    units: &[
        ScaleUnit { name: "ms", factor: 1, aliases: &["msec", "millis"] },
        ScaleUnit { name: "s", factor: 1_000, aliases: &["sec", "secs", "second", "seconds"] },
        ScaleUnit { name: "m", factor: 60_000, aliases: &["min", "mins", "minute", "minutes"] },
        ScaleUnit { name: "h", factor: 3_600_000, aliases: &["hr", "hour", "hours"] },
    ],
};

/// Reads a size in bytes: a whole number and one of `B`, `KiB`, `MiB`, `GiB`, `TiB`, for example
/// `"4MiB"`.
///
/// # Errors
/// The text has another form, or the number does not fit. The remedy says how to write it.
pub fn parse_size(text: &str) -> Result<u64, Invalid> {
    SIZE.parse(text)
}

/// Reads a time: a whole number and one of `ms`, `s`, `m`, `h`, for example `"500ms"`.
///
/// # Errors
/// The text has another form, or the number does not fit. The remedy says how to write it.
pub fn parse_duration(text: &str) -> Result<Duration, Invalid> {
    TIME.parse(text).map(Duration::from_millis)
}

/// Writes a number of bytes in the form that [`parse_size`] reads, in the largest unit that gives a
/// whole number.
pub fn show_size(bytes: u64) -> String {
    SIZE.show(bytes)
}

/// Writes a time in the form that [`parse_duration`] reads, truncated to whole milliseconds.
pub fn show_duration(time: Duration) -> String {
    TIME.show(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// A regular expression of the sizes from `min` to `max` bytes, in all units.
pub(super) fn size_pattern(min: u64, max: u64) -> String {
    SIZE.pattern(min, max)
}

/// A regular expression of the times from `min` to `max` milliseconds, in all units.
pub(super) fn time_pattern(min: u64, max: u64) -> String {
    TIME.pattern(min, max)
}

impl Scale {
    fn pattern(&self, min: u64, max: u64) -> String {
        let ranges =
            self.units.iter().map(|unit| (unit, min.div_ceil(unit.factor), max / unit.factor));
        let texts = ranges
            .filter(|(_, min, max)| min <= max)
            .map(|(unit, min, max)| format!("0*(?:{}){}", digits::pattern(min, max), unit.name));
        texts.collect::<Vec<_>>().join("|")
    }

    fn parse(&self, text: &str) -> Result<u64, Invalid> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        if let Some(unit) = self.units.iter().find(|known| known.name == unit) {
            if number.is_empty() {
                return Err(self.invalid(text, self.usage()));
            }
            let value = number.parse().ok().and_then(|n: u64| n.checked_mul(unit.factor));
            return value.ok_or_else(|| {
                let message = format!("the number in {} is too large", quoted(text));
                Invalid { message, remedy: self.usage() }
            });
        }
        let remedy = match self.likely_unit(unit) {
            _ if number.is_empty() => self.usage(),
            Some(unit) => format!("did you mean \"{number}{unit}\"?"),
            None => self.usage(),
        };
        Err(self.invalid(text, remedy))
    }

    /// The unit that the author of `unit` most likely meant.
    fn likely_unit(&self, unit: &str) -> Option<&'static str> {
        let unit = unit.trim().to_lowercase();
        if unit.is_empty() {
            return Some(self.usual);
        }
        let same = |known: &&ScaleUnit| {
            known.name.to_lowercase() == unit || known.aliases.contains(&unit.as_str())
        };
        self.units.iter().find(same).map(|known| known.name)
    }

    fn invalid(&self, text: &str, remedy: String) -> Invalid {
        Invalid { message: format!("expected {}, found {}", self.expected, quoted(text)), remedy }
    }

    fn usage(&self) -> String {
        let names: Vec<_> = self.units.iter().map(|unit| unit.name).collect();
        format!("write a whole number and one of {}, without a space", names.join(", "))
    }

    fn show(&self, value: u64) -> String {
        let whole = |unit: &&ScaleUnit| value != 0 && value.is_multiple_of(unit.factor);
        let unit = self.units.iter().rev().find(whole).unwrap_or(&self.units[0]);
        format!("{}{}", value / unit.factor, unit.name)
    }
}

/// A text for a message: quoted, on one line, cut after 60 characters.
pub(super) fn quoted(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((cut, _)) => format!("{:?}…", &text[..cut]),
        None => format!("{text:?}"),
    }
}
