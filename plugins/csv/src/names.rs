//! The names of columns: from a header, and as facts about fields that do not have these names.

use std::collections::HashSet;

use crate::chunk::{Chunk, shown, value};
use crate::dialect::Cell;
use pipemill_parsing::encoding::looks_like;

/// Largest number of bytes of names that a field may contain. Longer lists are replaced by a
/// checksum.
const MAX_SAID: usize = 1 << 20;

/// The name of a column without one.
pub(crate) fn default_name(column: usize) -> String {
    format!("f{column}")
}

/// The names in a header. A column with an empty name gets its default name.
pub(crate) fn of_header(chunk: &Chunk, cells: &[Cell]) -> Result<Vec<String>, String> {
    let name = |(column, cell): (usize, &Cell)| {
        let text = &chunk.bytes[cell.range()];
        let mut name = Vec::new();
        if cell.raw {
            chunk.dialect.unescape(text, &mut name);
        } else {
            name.extend_from_slice(text);
        }
        if name.is_empty() {
            return Ok(default_name(column));
        }
        String::from_utf8(name).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            let what = format!("the name of column {column}");
            let message = not_utf8(&what, error.as_bytes(), at);
            format!("{message}; to leave the header's names out, give others by `names`")
        })
    };
    cells.iter().enumerate().map(name).collect()
}

/// The names in a header that are only compared: bytes that are not UTF-8 are replaced.
pub(crate) fn as_written(chunk: &Chunk, cells: &[Cell]) -> Vec<String> {
    let mut buffer = Vec::new();
    let name = |cell: &Cell| String::from_utf8_lossy(value(chunk, *cell, &mut buffer)).into_owned();
    cells.iter().map(name).collect()
}

/// The message about a text whose byte `at` is not UTF-8.
pub(crate) fn not_utf8(what: &str, text: &[u8], at: usize) -> String {
    format!(
        "expected {what} in UTF-8, found {}; it looks like {}",
        shown(text),
        looks_like(text, at)
    )
}

/// The names, made unique: a second `a` becomes `a_1`.
pub(crate) fn without_duplicates(names: Vec<String>) -> Vec<String> {
    let mut taken: HashSet<String> = names.iter().cloned().collect();
    let mut seen = HashSet::new();
    let unique = |name: String| {
        if seen.insert(name.clone()) {
            return name;
        }
        let numbered = (1..).map(|number| format!("{name}_{number}"));
        let free = numbered.into_iter().find(|name| !taken.contains(name)).unwrap_or(name);
        taken.insert(free.clone());
        free
    };
    names.into_iter().map(unique).collect()
}

/// Names as a fact about a field, so that the host compares them with those of other objects: a
/// JSON array, or a checksum of it if it is long.
pub(crate) fn as_fact<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut json = String::from("[");
    for (column, name) in names.enumerate() {
        json.push_str(if column > 0 { ",\"" } else { "\"" });
        for char in name.chars() {
            match char {
                '"' | '\\' => json.extend(['\\', char]),
                '\0'..='\x1f' => json += &format!("\\u{:04x}", char as u32),
                _ => json.push(char),
            }
        }
        json.push('"');
    }
    json.push(']');
    if json.len() <= MAX_SAID {
        return json;
    }
    // FNV-1a of 64 bits.
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = json.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    format!("{} bytes with the checksum {hash:016x}", json.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_come_again_get_a_number() {
        let names = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        for (given, expected) in [
            ("a,b", "a,b"),
            ("a,b,a,a", "a,b,a_1,a_2"),
            ("a,a,a_1", "a,a_2,a_1"),
            ("a_1,a,a,a_1", "a_1,a,a_2,a_1_1"),
        ] {
            assert_eq!(without_duplicates(names(given)), names(expected), "{given}");
        }
    }

    #[test]
    fn facts_tell_names_apart() {
        assert_eq!(as_fact(["a,b", "c\"\\\n"].into_iter()), r#"["a,b","c\"\\\u000a"]"#);
        assert_ne!(as_fact(["a,b", "c"].into_iter()), as_fact(["a", "b,c"].into_iter()));
        let long = |last: &str| {
            let many = (0..200_000).map(|number| number.to_string()).collect::<Vec<_>>();
            as_fact(many.iter().map(String::as_str).chain([last]))
        };
        assert!(long("a").len() < 100 && long("a") != long("b"));
    }
}
