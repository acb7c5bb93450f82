//! The bytes around the rows of an object, and differences between objects: headers that the host
//! compares, lines to skip, ends of files, duplicate names.

use pipemill_csv::Csv;
use pipemill_plugin::testing::{Outcome, Setup, assert_all_splits, assert_restarts};

use crate::text;

fn outcome(options: &[(&str, &str)], input: &str) -> Outcome {
    assert_all_splits::<Csv>(&Setup::new(options), input.as_bytes())
}

/// The host compares schemas, so the names of a header must be in them.
#[test]
fn another_header_is_another_schema() {
    let (first, swapped) = ("age,income,label\n1,2,0\n", "income,age,label\n2,1,0\n");
    let headless = "3,4,1\n5,6,0\n";
    for options in [
        &[("emit", "dense")][..],
        &[("emit", "dense"), ("label", "label")],
        &[("emit", "dense"), ("label", "2"), ("columns", "0,1")],
        &[("emit", "dense"), ("flexible", "true")],
        &[("emit", "row")],
        &[("names", "a,b,c")],
        &[("names", "a,b,c"), ("types", "auto")],
        &[("emit", "dense"), ("names", "a,b,c"), ("label", "c")],
        &[],
    ] {
        let with_header = [options, &[("header", "true")]].concat();
        let schema = |input: &str| outcome(&with_header, input).schema;
        assert!(schema(first).is_some(), "{options:?}");
        assert_eq!(schema(first), schema("age,income,label\n7,8,1\n"), "{options:?}");
        assert_ne!(schema(first), schema(swapped), "{options:?}");
        if !options.contains(&("label", "label")) {
            assert_ne!(schema(first), schema(headless), "{options:?}");
        }
        let auto = [options, &[("header", "auto")]].concat();
        if !options.contains(&("label", "label")) {
            assert_ne!(
                outcome(&auto, first).schema,
                outcome(&auto, headless).schema,
                "{options:?}"
            );
        }
    }
    // Columns that are chosen by name may be in any order.
    let named = [("emit", "dense"), ("header", "true"), ("columns", "age,income")];
    assert_eq!(outcome(&named, first).schema, outcome(&named, swapped).schema);
    // The file without a header lacks the label.
    let label = [("emit", "dense"), ("header", "true"), ("label", "label")];
    assert!(outcome(&label, headless).refused);
}

#[test]
fn the_end_of_a_file_for_dos() {
    for options in [&[][..], &[("emit", "row")], &[("types", "auto"), ("header", "auto")]] {
        let plain = outcome(options, "id,v\r\n1,2\r\n3,4\r\n");
        for input in ["id,v\r\n1,2\r\n3,4\r\n\x1a", "id,v\r\n1,2\r\n3,4\x1a\x1a\x1a"] {
            let found = outcome(options, input);
            assert_eq!((found.records, found.errors), (plain.records.clone(), vec![]), "{input:?}");
        }
    }
    assert_eq!(text(&outcome(&[], "a\x1ab\n")), [["a\u{1a}b"]]);
}

#[test]
fn a_line_that_names_the_delimiter() {
    let semicolon = [("delimiter", ";"), ("header", "true")];
    for input in
        ["sep=;\r\nid;v\r\n1;2\r\n", "\u{feff}sep=;\nid;v\n1;2\n", "\"sep=;\"\nid;v\n1;2\n"]
    {
        assert_eq!(text(&outcome(&semicolon, input)), [["1", "2"]], "{input:?}");
        let other = outcome(&[("header", "true")], input);
        assert!(other.refused && other.errors[0].2.contains("set delimiter = \";\""), "{other:?}");
    }
    assert_eq!(text(&outcome(&[], "sep=a,b\n")), [["sep=a", "b"]]);
}

#[test]
fn lines_are_skipped() {
    let report = "A \"report\n\nid,v\n1,2\n";
    let options = [("skip_rows", "2"), ("header", "true")];
    assert_eq!(text(&outcome(&options, report)), [["1", "2"]]);
    assert_eq!(text(&outcome(&[("skip_rows", "3")], report)), [["1", "2"]]);
    assert_eq!(outcome(&[("skip_rows", "9")], report).records.len(), 0);
    let cr = [("skip_rows", "1"), ("lone_cr", "true")];
    assert_eq!(text(&outcome(&cr, "report\r\nid,v\r1,2\r")), [["id", "v"], ["1", "2"]]);
    let message = outcome(&options, "x\ny\na,b\nc\n").errors.remove(0).2;
    assert!(message.starts_with("line 4: "), "{message}");
}

#[test]
fn names_that_come_twice() {
    let input = "Age,Male,Female,Male\n10,1,2,3\n";
    let error = outcome(&[("header", "true")], input).errors.remove(0).2;
    assert!(error.contains("set rename_duplicates = true"), "{error}");
    let options = [("header", "true"), ("rename_duplicates", "true")];
    let schema = outcome(&options, input).schema.expect("it is known");
    let names: Vec<_> = schema.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["Age", "Male", "Female", "Male_1"]);
}

#[test]
fn empty_text_is_absent_if_the_option_says_so() {
    let options = [("header", "true"), ("types", "auto"), ("null", "")];
    let found = outcome(&options, "id,name\n1,\n2,Ann\n3,\"\"\n");
    let names: Vec<_> = found.records.iter().map(|record| record[1].clone()).collect();
    assert_eq!(names, [None, Some(b"Ann".to_vec()), None]);
    let options = [("header", "true"), ("null", ",NA")];
    assert_eq!(text(&outcome(&options, "a,b\n,NA\nx,y\n")), [["-", "-"], ["x", "y"]]);
}

/// The whole object would be one record.
#[test]
fn lines_that_end_at_cr() {
    for options in [
        &[][..],
        &[("header", "auto"), ("types", "auto")],
        &[("emit", "row")],
        &[("emit", "dense")],
        &[("names", "a,b,c")],
    ] {
        for input in ["1,Ann,2\r2,Bob,3\r3,Cid,4\r", "id,name,w\r1,Ann,2", "id,name,w\r1,Ann,2\n"] {
            let found = outcome(options, input);
            assert!(found.refused && found.records.is_empty(), "{options:?} {input:?}: {found:?}");
            assert!(found.errors[0].2.contains("set lone_cr = true"), "{:?}", found.errors);
        }
    }
    assert!(outcome(&[], "one\rtwo\rthree").refused);
    assert_eq!(text(&outcome(&[], "one\rtwo,x\nthree,y\n")), [["one\rtwo", "x"], ["three", "y"]]);
    // A row that is too long, because no line ends.
    let mut setup = Setup::new(&[]);
    setup.max_record = 100;
    let long = assert_all_splits::<Csv>(&setup, "1,2\r".repeat(50).as_bytes());
    assert!(long.errors[0].2.contains("set lone_cr = true"), "{:?}", long.errors);
}

#[test]
fn an_object_that_is_no_text() {
    for input in
        [&b"PAR1\x15\x04\x15"[..], b"\x1f\x8b\x08\0\0\0\0\0\0\x03", b"<!DOCTYPE html>\n<p>"]
    {
        for options in [&[][..], &[("types", "bytes")], &[("emit", "row")]] {
            let found = assert_all_splits::<Csv>(&Setup::new(options), input);
            assert!(found.refused && found.records.is_empty(), "{found:?}");
            assert!(found.errors[0].2.contains("expected delimited text, found"));
        }
    }
}

/// The next object must show the types.
#[test]
fn a_header_and_nothing_else() {
    let auto = [("header", "true"), ("types", "auto")];
    for input in ["id,v\n", "id,v", "\u{feff}id,v\r\n\r\n"] {
        let found = outcome(&auto, input);
        assert_eq!((found.schema, found.records.len(), found.errors), (None, 0, vec![]));
    }
    let mut setup = Setup::new(&auto);
    setup.extensions.push(("schema".to_owned(), "int64 id\nutf8 v\n".to_owned()));
    let found = assert_all_splits::<Csv>(&setup, b"id,v\n");
    assert_eq!(found.schema.map_or(0, |fields| fields.len()), 2);
}

/// A stream that begins inside an object gets its header again, and nothing else at first.
#[test]
fn decoding_begins_again_after_a_header() {
    for (options, head) in [
        (&[("flexible", "true")][..], ""),
        (&[("skip_rows", "1")], "a report\n"),
        (&[("delimiter", ";")], "sep=;\n"),
        (&[("emit", "dense"), ("rename_duplicates", "true")], ""),
        (&[("names", "x,y")], ""),
        (&[("emit", "row")], ""),
    ] {
        let options = [options, &[("header", "true")]].concat();
        let delimiter = if head == "sep=;\n" { ";" } else { "," };
        let rows: String = (0..40).map(|row| format!("{row},{row}\n")).collect();
        let input = format!("{head}id,v\n{rows}").replace(',', delimiter);
        let input = if head == "sep=;\n" { format!("\u{feff}{input}") } else { input };
        let sizes = vec![7; 100];
        let places = assert_restarts::<Csv>(&Setup::new(&options), input.as_bytes(), &sizes);
        assert!(places.len() > 20, "{options:?}");
    }
}
