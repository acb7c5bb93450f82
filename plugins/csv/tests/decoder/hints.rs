//! Values and rows that another option would read: the message names that option.

use pipemill_csv::Csv;
use pipemill_plugin::testing::{Setup, assert_all_splits, decode_whole};

const AUTO: &[(&str, &str)] = &[("header", "true"), ("types", "auto")];

/// The message about a value after the rows that show the types.
fn late(value: &str) -> String {
    let rows: String = (0..1100).map(|row| format!("{row},{row}\n")).collect();
    let input = format!("id,v\n{rows}2000,{value}\n");
    let outcome = decode_whole::<Csv>(&Setup::new(AUTO), input.as_bytes());
    assert_eq!(outcome.records.len(), 1100, "{value}");
    outcome.errors[0].2.clone()
}

#[test]
fn late_values_of_another_type() {
    for (value, expected) in [
        ("0.5", "types = \"auto,v:float64\" takes fractions"),
        ("1e3", "types = \"auto,v:float64\" takes fractions"),
        ("NA", "if it means that there is none, set null = \"NA\""),
        ("\\N", "set null = \"\\N\""),
        ("?", "set null = \"?\""),
        (
            "\"1,234\"",
            "separators of thousands: rewrite such numbers, or take text by types = \"auto,v:",
        ),
        ("\"1,5\"", "it has a decimal comma: set decimal = \",\""),
        ("1'234'567", "separators of thousands"),
        ("007", "types = \"auto,v:utf8\" takes text"),
        ("+31855443322", "types = \"auto,v:utf8\" takes text"),
        ("new", "types = \"auto,v:utf8\" takes text"),
        ("9223372036854775808", "types = \"auto,v:utf8\" takes text"),
    ] {
        let message = late(value);
        assert!(message.contains(expected), "{value}: {message}");
        assert!(!message.contains("flexible") && !message.contains("skip"), "{message}");
    }
}

#[test]
fn null_words_are_added_to_those_that_are_set() {
    let options = [("types", "int64"), ("null", "-,none")];
    let message = &decode_whole::<Csv>(&Setup::new(&options), b"1\n-\nNA\n").errors[0].2;
    assert!(message.contains("set null = \"-,none,NA\""), "{message}");
    let dense = Setup::new(&[("emit", "dense")]);
    let message = &decode_whole::<Csv>(&dense, b"1\nNA\n").errors[0].2;
    assert!(message.contains("set empty = \"nan\" and null = \"NA\""), "{message}");
    let dense = Setup::new(&[("emit", "dense"), ("empty", "nan"), ("null", "NA")]);
    let outcome = assert_all_splits::<Csv>(&dense, b"1,NA\nNA,2\n");
    assert_eq!((outcome.records.len(), outcome.errors.len()), (2, 0));
}

#[test]
fn a_column_whose_name_the_option_cannot_say() {
    let rows = "1\n".repeat(1100);
    let input = format!("\"a,b\"\n{rows}0.5\n");
    let message = &decode_whole::<Csv>(&Setup::new(AUTO), input.as_bytes()).errors[0].2;
    assert!(message.contains("types = \"auto,0:float64\""), "{message}");
}

#[track_caller]
fn says(options: &[(&str, &str)], input: &str, expected: &str) {
    let outcome = assert_all_splits::<Csv>(&Setup::new(options), input.as_bytes());
    let message = outcome.errors.first().map_or("", |(_, _, message)| message);
    assert!(message.contains(expected), "{input:?}: {message:?}");
    assert!(!message.contains("set flexible"), "{message}");
}

#[test]
fn rows_with_a_name_more_than_the_header() {
    let table = "\"x\",\"y\"\n\"1\",2.5,7\n\"2\",3.5,8\n\"3\",4.5,9\n";
    let auto = [("header", "auto"), ("types", "auto")];
    says(&auto, table, "set names = \"row,x,y\"");
    says(&[("header", "true")], table, "set names = \"row,x,y\"");
    let flexible = [&auto[..], &[("flexible", "true")]].concat();
    says(&flexible, table, "flexible = true would leave the others out");
    says(&flexible, table, "set names = \"row,x,y\"");
    let named = [("header", "true"), ("types", "auto"), ("names", "row,x,y")];
    let outcome = assert_all_splits::<Csv>(&Setup::new(&named), table.as_bytes());
    assert_eq!((outcome.records.len(), outcome.errors.len()), (3, 0));
    // An extra comma in a later row says nothing about names.
    let later = "x,y\n1,2\n3,4,5\n";
    says(&[("header", "true")], later, "a delimiter in a value needs quotes");
}

#[test]
fn lines_above_a_table() {
    let report = "Station report\nby tool 3\nid,temp,hum\n1,20.5,40\n2,21.0,41\n";
    says(&[], report, "set skip_rows = 2");
    says(&[("flexible", "true")], &report.replace("by tool 3\n", ""), "set skip_rows = 1");
    says(&[("flexible", "true")], report, "set skip_rows = 2");
    says(&[("flexible", "true"), ("header", "true")], report, "set skip_rows = 2");
    let options = [("skip_rows", "2"), ("header", "auto"), ("types", "auto")];
    let outcome = assert_all_splits::<Csv>(&Setup::new(&options), report.as_bytes());
    assert_eq!((outcome.records.len(), outcome.errors.len()), (2, 0));
}

#[test]
fn only_rows_that_lack_fields_are_for_flexible() {
    let outcome = decode_whole::<Csv>(&Setup::new(&[]), b"a,b\nc\n");
    assert!(outcome.errors[0].2.ends_with("set flexible = true to take such rows"));
}

#[test]
fn the_point_may_be_a_comma() {
    let input = "id;x;y\n1;1,5;2\n2;-0,25;3,5\n3;;-4\n";
    let options = [("delimiter", ";"), ("header", "auto"), ("types", "auto"), ("decimal", ",")];
    let outcome = assert_all_splits::<Csv>(&Setup::new(&options), input.as_bytes());
    let column = |column: usize| -> Vec<_> {
        let number = |bytes: &Vec<u8>| f64::from_le_bytes(bytes[..].try_into().expect("a float64"));
        outcome.records.iter().map(|record| record[column].as_ref().map(number)).collect()
    };
    assert_eq!(column(1), [Some(1.5), Some(-0.25), None]);
    assert_eq!(column(2), [Some(2.0), Some(3.5), Some(-4.0)]);
    // A point may separate thousands.
    let point = [("delimiter", ";"), ("types", "float64"), ("decimal", ",")];
    let outcome = assert_all_splits::<Csv>(&Setup::new(&point), b"1,5;1.234\n");
    assert!(outcome.records.is_empty() && outcome.errors.len() == 1, "{outcome:?}");
    let dense = [("delimiter", ";"), ("emit", "dense"), ("decimal", ",")];
    let rows = "1,5;2,25\n-3;4,125\n".repeat(20);
    let outcome = assert_all_splits::<Csv>(&Setup::new(&dense), rows.as_bytes());
    let numbers: Vec<u8> = [1.5f32, 2.25].iter().flat_map(|number| number.to_le_bytes()).collect();
    assert_eq!((outcome.records.len(), &outcome.records[0][0]), (40, &Some(numbers)));
}
