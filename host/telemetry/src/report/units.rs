//! Formats numbers for people.

use std::time::{Duration, UNIX_EPOCH};

/// Between groups of three digits: a narrow space that does not break the line.
const THIN_SPACE: char = '\u{202f}';
/// Between a number and its unit: a space that does not break the line.
const SPACE: char = '\u{a0}';

/// A whole number, in groups of three digits.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(THIN_SPACE);
        }
        text.push(digit);
    }
    text
}

/// A whole number in a `<data>` element, so that machines can read it, too.
pub(super) fn counted(number: u64) -> String {
    format!("<data value=\"{number}\">{}</data>", count(number))
}

/// A number with three significant digits, a prefix, and its unit: `1.23 MiB/s`, `4.5 k`. Bytes
/// (`B` and `B/s`) have prefixes of 1024, others of 1000.
pub(super) fn scaled(number: f64, unit: &str) -> String {
    let prefix = prefix(number, unit);
    let (number, unit) = (digits(number / prefix.factor), format!("{}{unit}", prefix.name));
    if unit.is_empty() { number } else { format!("{number}{SPACE}{unit}") }
}

/// The prefix of a unit.
pub(super) struct Prefix {
    name: &'static str,
    /// The factor by which it multiplies the unit.
    pub(super) factor: f64,
}

/// The prefix with which a number of this unit is written.
pub(super) fn prefix(number: f64, unit: &str) -> Prefix {
    let (names, base) = match unit.starts_with('B') {
        true => (["", "Ki", "Mi", "Gi", "Ti", "Pi"], 1024.0),
        false => (["", "k", "M", "G", "T", "P"], 1000.0),
    };
    let mut found = Prefix { name: "", factor: 1.0 };
    for name in &names[1..] {
        // A number that would need four digits takes the next prefix.
        if number / found.factor < 999.5 {
            break;
        }
        found = Prefix { name, factor: found.factor * base };
    }
    found
}

fn digits(number: f64) -> String {
    let places = match number {
        number if number >= 99.95 || number == 0.0 => 0,
        number if number >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{number:.places$}");
    if places == 0 {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A number of bytes in MiB, a unit of the configuration.
pub(super) fn memory(bytes: u64) -> String {
    const MIB: f64 = 1024.0 * 1024.0;
    format!("{}{SPACE}MiB", digits(bytes as f64 / MIB))
}

/// A duration in at most two units.
pub(super) fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds == 0.0 {
        return format!("0{SPACE}s");
    }
    if seconds < 0.001 {
        return format!("{}{SPACE}µs", digits(seconds * 1e6));
    }
    if seconds < 0.9995 {
        return format!("{}{SPACE}ms", digits(seconds * 1e3));
    }
    if seconds < 59.95 {
        return format!("{}{SPACE}s", digits(seconds));
    }
    let whole = seconds.round() as u64;
    let two = |large: u64, unit: &str, small: u64, other: &str| match small {
        0 => format!("{large}{SPACE}{unit}"),
        _ => format!("{large}{SPACE}{unit} {small}{SPACE}{other}"),
    };
    match whole {
        0..3600 => two(whole / 60, "min", whole % 60, "s"),
        3600..86400 => two(whole / 3600, "h", whole / 60 % 60, "min"),
        _ => two(whole / 86400, "d", whole / 3600 % 24, "h"),
    }
}

/// A share from 0 to 1, in percent.
pub(super) fn percent(part: f64) -> String {
    format!("{:.0}{SPACE}%", 100.0 * part)
}

/// Date and time in UTC, from seconds since 1970.
pub(super) fn date(seconds: u64) -> String {
    let text = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds));
    text.to_string().replace('T', &SPACE.to_string()).replace('Z', &format!("{SPACE}UTC"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_scaled() {
        assert_eq!(count(0), "0");
        assert_eq!(count(123), "123");
        assert_eq!(count(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(scaled(0.0, "B/s"), "0\u{a0}B/s");
        assert_eq!(scaled(999.4, ""), "999");
        assert_eq!(scaled(999.7, ""), "1\u{a0}k");
        assert_eq!(scaled(1_234_567.0, ""), "1.23\u{a0}M");
        assert_eq!(scaled(1_234_567.0, "B/s"), "1.18\u{a0}MiB/s");
        assert_eq!(scaled(45_600_000.0, "B"), "43.5\u{a0}MiB");
        assert_eq!(scaled(1_023.0, "B"), "1\u{a0}KiB");
        assert_eq!(scaled(1e18, "B"), "888\u{a0}PiB");
        assert_eq!(memory(1_179_648), "1.12\u{a0}MiB");
        assert_eq!(percent(0.284), "28\u{a0}%");
    }

    #[test]
    fn durations_have_at_most_two_units() {
        let of = |millis| time(Duration::from_millis(millis)).replace('\u{a0}', " ");
        let found = [0, 1, 750, 1000, 12_340, 250_000, 3_600_000, 7_380_000, 90_000_000].map(of);
        let expected =
            ["0 s", "1 ms", "750 ms", "1 s", "12.3 s", "4 min 10 s", "1 h", "2 h 3 min", "1 d 1 h"];
        assert_eq!(found, expected);
        assert_eq!(time(Duration::from_nanos(1500)), "1.5\u{a0}µs");
    }

    #[test]
    fn dates_follow_the_gregorian_calendar() {
        let of = |seconds| date(seconds).replace('\u{a0}', " ");
        assert_eq!(of(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(of(951_782_399), "2000-02-28 23:59:59 UTC");
        assert_eq!(of(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(of(951_868_800), "2000-03-01 00:00:00 UTC");
        assert_eq!(of(1_795_305_851), "2026-11-22 00:04:11 UTC");
        assert_eq!(of(4_107_542_400), "2100-03-01 00:00:00 UTC");
    }
}
