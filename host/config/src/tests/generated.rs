//! The generated files: the schema, and the tables of docs/configuration.md. `make generated`
//! writes both again. Each example of the page is a valid configuration.

use std::path::{Path, PathBuf};

use super::super::key::Table;
use super::super::keys::{SOURCE_TABLE, TABLES};
use super::super::source;
use super::*;

/// Compares a file with its expected text, or writes it if `PIPEMILL_UPDATE` is set.
fn compare(path: &Path, expected: &str) {
    if std::env::var_os("PIPEMILL_UPDATE").is_some() {
        std::fs::write(path, expected).unwrap();
    }
    let is_same = std::fs::read_to_string(path).is_ok_and(|text| text == expected);
    assert!(is_same, "{} is not what the keys say: make generated", path.display());
}

fn docs(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

fn page() -> String {
    std::fs::read_to_string(docs("configuration.md")).unwrap()
}

#[test]
fn the_schema_is_that_of_the_keys() {
    compare(&docs("pipemill.schema.json"), &schema());
}

#[test]
fn the_tables_of_the_page_are_those_of_the_keys() {
    let mut page = page();
    for table in TABLES {
        page = with_table(&page, table.name, &rows(table));
    }
    page = with_table(&page, "kinds of source", &kinds());
    compare(&docs("configuration.md"), &page);
}

/// The page with these rows between the two comments that name the table.
fn with_table(page: &str, name: &str, rows: &str) -> String {
    let begin = format!("<!-- generated: {name} -->\n");
    let (before, rest) =
        page.split_once(&begin).unwrap_or_else(|| panic!("the page has no {begin:?}"));
    let end = "<!-- end -->\n";
    let (_, after) = rest.split_once(end).unwrap_or_else(|| panic!("{begin:?} has no {end:?}"));
    format!("{before}{begin}\n{rows}\n{end}{after}")
}

/// A row for each key.
fn rows(table: &Table) -> String {
    let mut text = "| key | value | default | meaning |\n|---|---|---|---|\n".to_owned();
    for key in table.keys() {
        let (name, doc) = (key.name(), key.doc());
        assert!(doc.ends_with('.'), "{name} in {} has no documentation", table.name);
        let (expected, default) = (key.expected(), key.default_text());
        text += &format!("| `{name}` | {expected} | {default} | {doc} |\n");
    }
    text
}

/// The kinds of sources that each key belongs to.
fn kinds() -> String {
    let forms: Vec<_> = source::forms().collect();
    let list = |names: &[&str]| {
        names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    };
    let mut text = "| keys | go with |\n|---|---|\n".to_owned();
    let is_kind = |name: &&str| forms.iter().any(|(kind, _)| kind == name);
    // Keys of the same kinds, in the order of the table.
    let mut together: Vec<(Vec<&str>, Vec<&str>)> = Vec::new();
    for name in SOURCE_TABLE.names().into_iter().filter(|name| !is_kind(name)) {
        let with_it = forms.iter().filter(|(_, keys)| keys.contains(&name));
        let kinds: Vec<_> = with_it.map(|(kind, _)| *kind).collect();
        match together.iter_mut().find(|(_, same)| *same == kinds) {
            Some((names, _)) => names.push(name),
            None => together.push((vec![name], kinds)),
        }
    }
    for (names, kinds) in together {
        text += &format!("| {} | {} |\n", list(&names), list(&kinds));
    }
    text
}

#[test]
fn each_example_is_a_valid_configuration() {
    let env = |name: &str| (name == "DATA").then(|| "/data".to_owned());
    let page = page();
    let mut examples = 0;
    for block in page.split("```toml\n").skip(1) {
        let text = block.split("```").next().unwrap_or(block);
        if let Err(faults) = parse(text, "example", &env) {
            panic!("{faults:#?} in\n{text}");
        }
        examples += 1;
    }
    assert!(examples > 3, "the page has lost its examples");
}
