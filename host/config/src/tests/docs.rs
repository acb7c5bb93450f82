//! Compares docs/configuration.md with the keys: each key has a row with its range and default,
//! there is no other row, and each example is a valid configuration.

use super::super::keys::TABLES;
use super::*;

const PAGE: &str = include_str!("../../../../docs/configuration.md");

/// The first three cells of each row that describes a key: such a row has four cells, and the first
/// cell is code.
fn rows(section: &str) -> Vec<[String; 3]> {
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect());
    let keys = cells.filter_map(|cells: Vec<&str>| match cells[..] {
        [key, values, default, meaning] if !meaning.is_empty() => {
            Some([key.trim_matches('`'), values, default].map(str::to_owned))
        }
        _ => None,
    });
    keys.collect()
}

#[test]
fn each_key_is_documented_with_its_range_and_default() {
    for table in TABLES {
        let is_about_table = |section: &&str| {
            let heading = section.lines().next().unwrap_or_default().replace('`', "");
            heading.ends_with(table.name)
        };
        let section = PAGE.split("\n## ").skip(1).find(is_about_table);
        let section = section.unwrap_or_else(|| panic!("no heading for {}", table.name));
        let keys = table.keys().into_iter();
        let expected: Vec<_> =
            keys.map(|key| [key.name().to_owned(), key.expected(), key.default_text()]).collect();
        assert_eq!(rows(section), expected, "under {}", table.name);
    }
    let documented: usize = TABLES.iter().map(|table| table.keys().len()).sum();
    assert_eq!(rows(PAGE).len(), documented, "a table of keys stands under another heading");
}

#[test]
fn each_example_is_a_valid_configuration() {
    let env = |name: &str| (name == "DATA").then(|| "/data".to_owned());
    let mut examples = 0;
    for block in PAGE.split("```toml\n").skip(1) {
        let text = block.split("```").next().unwrap_or(block);
        if let Err(faults) = parse(text, "example", &env) {
            panic!("{faults:#?} in\n{text}");
        }
        examples += 1;
    }
    assert!(examples > 3, "the page has lost its examples");
}
