//! docs/configuration.md against the keys that the parser knows: each has a row with its range and
//! default, no row is of anything else, and every example is a good configuration.

use super::super::keys::TABLES;
use super::*;

const PAGE: &str = include_str!("../../../../../docs/configuration.md");

/// The first three cells of each row of keys: those with four cells, the first of them code.
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
fn every_key_is_documented_as_it_is() {
    for table in TABLES {
        let about = |section: &&str| {
            let heading = section.lines().next().unwrap_or_default().replace('`', "");
            heading.ends_with(table.name)
        };
        let section = PAGE.split("\n## ").skip(1).find(about);
        let section = section.unwrap_or_else(|| panic!("no heading for {}", table.name));
        let known = table.keys().into_iter();
        let known: Vec<_> =
            known.map(|key| [key.name().to_owned(), key.expected(), key.default_text()]).collect();
        assert_eq!(rows(section), known, "under {}", table.name);
    }
    let documented: usize = TABLES.iter().map(|table| table.keys().len()).sum();
    assert_eq!(rows(PAGE).len(), documented, "a table of keys stands under another heading");
}

#[test]
fn every_example_is_a_good_configuration() {
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
