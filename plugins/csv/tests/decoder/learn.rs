//! `header = "auto"` and `types = "auto"`: the facts that the first rows show, in any split of the
//! input.

use pipemill_csv::Csv;
use pipemill_plugin::Scalar;
use pipemill_plugin::testing::{Outcome, Setup, assert_any_split, decode_whole};
use proptest::collection::vec;
use proptest::prelude::*;

const AUTO: &[(&str, &str)] = &[("header", "auto"), ("types", "auto")];

/// The names and types of the fields.
fn fields(outcome: &Outcome) -> Vec<(String, Scalar)> {
    let schema = outcome.schema.as_deref().unwrap_or_default();
    schema.iter().map(|field| (field.name.clone(), field.scalar)).collect()
}

/// The result in any split: the fields, the number of records and the errors.
#[track_caller]
fn learnt(options: &[(&str, &str)], input: &str) -> (Vec<(String, Scalar)>, usize, Vec<String>) {
    let setup = Setup::new(options);
    for sizes in [vec![1; input.len().min(300)], vec![7, 3, 100], vec![input.len() / 2]] {
        assert_any_split::<Csv>(&setup, input.as_bytes(), &sizes);
    }
    let outcome = decode_whole::<Csv>(&setup, input.as_bytes());
    let errors = outcome.errors.iter().map(|(_, _, message)| message.clone()).collect();
    (fields(&outcome), outcome.records.len(), errors)
}

#[track_caller]
fn types(options: &[(&str, &str)], input: &str, expected: &[(&str, Scalar)], records: usize) {
    let expected: Vec<_> =
        expected.iter().map(|(name, scalar)| (name.to_string(), *scalar)).collect();
    assert_eq!(learnt(options, input), (expected, records, vec![]), "{input}");
}

use Scalar::{Boolean, Float64, Int64, Utf8};

#[test]
fn the_first_rows_tell_types_and_header() {
    let table = "id,price,ok,name,zip,none\n1,2.5,true,Ann,007,\n-2,3,False,\"B, b\",1,\n";
    let expected = [
        ("id", Int64),
        ("price", Float64),
        ("ok", Boolean),
        ("name", Utf8),
        ("zip", Utf8),
        ("none", Utf8),
    ];
    types(AUTO, table, &expected, 2);
    types(AUTO, "1,a\n2,b\n", &[("f0", Int64), ("f1", Utf8)], 2);
    types(AUTO, "\u{feff}x\r\n1\r\n\r\n2\r\n", &[("x", Int64)], 2);
    types(AUTO, "x\n\n9223372036854775807\n", &[("x", Int64)], 1);
    types(AUTO, "x,y\n9223372036854775808,1\n", &[("x", Utf8), ("y", Int64)], 1);
    types(AUTO, "x\nnan\n-1e5\n.5\n5.\ninf\n", &[("x", Float64)], 5);
    types(AUTO, "x,y\ntrue,1\n1,2\n", &[("x", Utf8), ("y", Int64)], 2);
    types(&[("types", "auto")], "x,1\ny,2\n", &[("f0", Utf8), ("f1", Int64)], 2);
    let overridden = [("header", "auto"), ("types", "auto,x:utf8")];
    types(&overridden, "x,y\n1,2\n", &[("x", Utf8), ("y", Int64)], 1);
    let named = [("header", "auto"), ("types", "auto"), ("names", "a,b")];
    types(&named, "x,y\n1,2\n", &[("a", Int64), ("b", Int64)], 1);
    types(AUTO, "", &[], 0);
}

#[test]
fn a_header_that_nobody_can_tell_is_refused() {
    for (input, reason) in
        [("name,city\nAnn,Rome\n", "all columns are text"), ("a,b\n", "there is one row")]
    {
        let (fields, records, errors) = learnt(AUTO, input);
        assert_eq!((fields.len(), records), (0, 0));
        assert!(errors[0].contains(reason) && errors[0].contains("header = true"), "{errors:?}");
    }
}

#[test]
fn null_words_are_absent() {
    let options = [("header", "auto"), ("types", "auto"), ("null", "NA,-")];
    let input = "id,name\n1,NA\n-,Ann\nNA,Bo\n";
    types(&options, input, &[("id", Int64), ("name", Utf8)], 3);
    let outcome = decode_whole::<Csv>(&Setup::new(&options), input.as_bytes());
    let absent: Vec<Vec<bool>> =
        outcome.records.iter().map(|record| record.iter().map(Option::is_none).collect()).collect();
    assert_eq!(absent, [[false, true], [true, false], [true, false]]);
    assert!(outcome.schema.expect("it has one").iter().all(|field| field.nullable));
}

/// Rows after the window don't count, and must have the types of earlier rows.
#[test]
fn a_later_value_of_another_type_is_an_error_with_a_remedy() {
    let mut input = String::from("x\n");
    (0..999).for_each(|row| input += &format!("{row}\n"));
    let (fields, records, errors) = learnt(AUTO, &format!("{input}a\n"));
    assert_eq!((fields, records), (vec![("x".to_owned(), Int64)], 999));
    assert_eq!(
        errors,
        ["line 1001, column 0 (`x`): expected int64, found \"a\"; the first rows have this type: \
          types = \"auto,x:utf8\" takes text"]
    );
    // The row before it is the last of the window.
    let named = [("header", "true"), ("types", "auto")];
    let (fields, records, errors) = learnt(&named, &input.replace("998\n", "a\n"));
    assert_eq!((fields, records, errors.len()), (vec![("x".to_owned(), Utf8)], 999, 0));
}

/// A row that ends after the first MiB is not in the window.
#[test]
fn the_window_ends_after_its_bytes() {
    let filler = "9".repeat(15);
    let row = format!("{filler},1\n");
    for (rows, expected) in [((1 << 20) / row.len() - 4, Utf8), ((1 << 20) / row.len() + 1, Int64)]
    {
        // Fewer than 1,000 rows: the rest of the bytes is in one long field.
        let long = row.len() * rows;
        let input = format!("a,b\n1,{filler}\n{},1\nx,1\n", "7".repeat(long));
        let outcome = assert_any_split::<Csv>(&Setup::new(AUTO), input.as_bytes(), &[100_000; 20]);
        // The long number is not an int64, so that column `a` is text if its row is in the window.
        assert_eq!(fields(&outcome)[0].1, expected, "{rows}");
    }
}

#[test]
fn thousands_of_columns() {
    let line = |value: fn(usize) -> String| (0..5000).map(value).collect::<Vec<_>>().join(",");
    let header = line(|column| format!("column {column}"));
    let row =
        line(|column| if column % 2 == 0 { format!("{column}") } else { format!("{column}.5") });
    let input = format!("{header}\n{row}\n{row}\n");
    let outcome = assert_any_split::<Csv>(&Setup::new(AUTO), input.as_bytes(), &[9000; 10]);
    let fields = fields(&outcome);
    assert_eq!((fields.len(), outcome.records.len()), (5000, 2));
    assert!(fields.iter().enumerate().all(|(column, (name, scalar))| {
        *name == format!("column {column}") && *scalar == [Int64, Float64][column % 2]
    }));
}

#[test]
fn text_is_text_and_bytes_are_asked_for() {
    let input = b"a,caf\xe9\n";
    let outcome = decode_whole::<Csv>(&Setup::new(&[]), input);
    assert_eq!(
        outcome.errors[0].2,
        "line 1, column 1 (`f1`): expected utf8, found \"\\xe9\" at byte 3 of the value; it looks \
         like Latin-1 (`iconv -f LATIN1 -t UTF-8` converts it); types = \"bytes\" takes it as it is"
    );
    let outcome = decode_whole::<Csv>(&Setup::new(&[("types", "bytes")]), input);
    assert_eq!(outcome.records, [[Some(b"a".to_vec()), Some(b"caf\xe9".to_vec())]]);
    // A text that is not a value need not make the column text.
    let commented = Setup::new(&[("comment", "#")]);
    let outcome = decode_whole::<Csv>(&commented, b"#\xff\na,\xc3\xa9\n");
    assert_eq!(outcome.records, [[Some(b"a".to_vec()), Some("é".as_bytes().to_vec())]]);
}

/// A value of one of the types, or of none.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f64>().prop_map(|number| number.to_string()),
        prop_oneof![Just("true"), Just("FALSE"), Just(""), Just("NA"), Just("007"), Just("\"x\"")]
            .prop_map(str::to_owned),
        "[a-c ]{0,3}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// Types, header, records and errors are those of the whole input, for any split of it.
    #[test]
    fn any_split_gives_the_same_types(
        rows in vec(vec(value(), 3), 0..12),
        sizes in vec(1_usize..40, 0..12),
        skip: bool,
        max_record in prop_oneof![Just(1_u64 << 20), 20_u64..120],
        options in prop_oneof![
            Just(AUTO.to_vec()),
            Just(vec![("types", "auto")]),
            Just(vec![("types", "auto"), ("null", "NA"), ("header", "true")]),
            Just(vec![("types", "auto"), ("flexible", "true"), ("header", "auto")]),
            Just(vec![("emit", "dense"), ("header", "auto"), ("empty", "nan")]),
        ],
    ) {
        let lines: Vec<_> = rows.iter().map(|row| row.join(",")).collect();
        let input = lines.join("\n");
        let mut setup = Setup::new(&options);
        (setup.skip, setup.max_record) = (skip, max_record);
        assert_any_split::<Csv>(&setup, input.as_bytes(), &sizes);
    }

    /// A column with one kind of value has the type of that kind, and keeps all values.
    #[test]
    fn floats_are_the_nearest(numbers in vec(any::<f64>(), 1..40)) {
        let lines: Vec<_> = numbers.iter().map(|number| format!("{number:e}")).collect();
        let input = format!("x\n{}\n", lines.join("\n"));
        let outcome = decode_whole::<Csv>(&Setup::new(AUTO), input.as_bytes());
        let found: Vec<_> = outcome.records.iter().map(|record| record[0].clone()).collect();
        let expected: Vec<_> = lines
            .iter()
            .map(|text| Some(text.parse::<f64>().expect("a number").to_le_bytes().to_vec()))
            .collect();
        prop_assert_eq!(found, expected);
    }
}
