//! `header = "auto"`: a header, no header, or a refusal if it can't be decided. A header is never
//! read as a record, nor a record as a header.

use pipemill_csv::Csv;
use pipemill_plugin::Scalar;
use pipemill_plugin::testing::{Setup, assert_any_split};

const AUTO: &[(&str, &str)] = &[("header", "auto"), ("types", "auto")];

#[derive(Debug, PartialEq, Eq)]
enum Told {
    Header,
    NoHeader,
    Refused,
}

/// The facts that the first rows of an input show, in any split of it.
fn told(input: &str) -> Told {
    let outcome =
        assert_any_split::<Csv>(&Setup::new(AUTO), input.as_bytes(), &vec![1; input.len()]);
    let rows = input.lines().filter(|line| !line.is_empty()).count();
    match (outcome.refused, rows - outcome.records.len()) {
        (true, _) => {
            let message = &outcome.errors[0].2;
            assert!(message.contains("set header = true or header = false"), "{message}");
            assert!(outcome.records.is_empty(), "{input}");
            Told::Refused
        }
        (false, 0) => Told::NoHeader,
        (false, 1) => Told::Header,
        _ => panic!("{input}: {outcome:?}"),
    }
}

#[test]
fn text_above_numbers_is_a_header() {
    for input in ["id,x\n1,2\n", "id,name\n1,Ann\n", "ok,name\ntrue,Ann\n", ",x\n0,1.5\n1,2.5\n"] {
        assert_eq!(told(input), Told::Header, "{input}");
    }
}

#[test]
fn numbers_are_a_record() {
    for input in [
        "1.5,2\n3,4\n",
        "Ann,5,3\nBob,4,2\n",
        "1,Ann\n2,Bob\n",
        "0,Ann\n1,Bob\n",
        "great,0\nbad,1\n",
        "Ann,1998\nBob,2001\n",
        "2019-01-02,5\n2019-01-03,7\n",
        "007,a\n8,b\n",
        "007\n8\n12\n",
        "5.1,3.5,1.4,0.2\n4.9,3.0,1.4,0.2\n",
        "true,5\nfalse,6\n",
        "1,2\n3.5,4\n",
        "12,nan\n3,4.5\n",
        "0,0,0\n0.5,0.25,1.5\n",
    ] {
        assert_eq!(told(input), Told::NoHeader, "{input}");
    }
}

/// A number may be a name, and nothing else in the row suggests a header.
#[test]
fn numbers_that_may_be_names_are_refused() {
    for input in [
        // pandas' names of columns, with and without an index.
        "0,1,2,3\n0.1,0.2,0.3,1\n0.4,0.5,0.6,0\n",
        ",0,1,2\n0,0.1,0.2,0.3\n1,0.4,0.5,0.6\n",
        "0\n0.5\n1.5\n",
        ",0\n0,0.5\n1,1.5\n",
        "0,1\n5,6\n",
        "name,0,1,2\nx,5,6,7\ny,8,9,10\n",
        "0,1,2\na,b,c\n",
        "1,2,3\n10,20,30\n",
        // Years, each year or each fifth.
        "name,2019,2020,2021\nx,1,2,3\ny,4,5,6\n",
        "name,2010,2015\nx,1,2\n",
        "country,2020\nx,5\ny,7\n",
        "name,2019,2020\nx,low,high\n",
        // Words that are read as numbers.
        "inf\n1.5\n2.5\n",
        "name,nan\nx,1.5\n",
        "NaN,Inf\n1,2\n",
        // Wavelengths, chosen features.
        "400.5,401,401.5\n0.1,0.2,0.3\n",
        "3,17,101\n0.5,0.25,1.5\n",
        // A null word above numbers, next to a number.
        "NA,5.1\n3,2.5\n",
        "?,5.1\n3,2.5\n",
        "abc,5\n1,6\n",
    ] {
        assert_eq!(told(input), Told::Refused, "{input}");
    }
}

/// Text above numbers, with a possible name next to it.
#[test]
fn names_of_both_kinds_are_a_header() {
    for input in [
        "year,unem,inf\n1950,5.3,1.3\n1951,3.3,7.9\n",
        "id,2019,2020\n7,1.5,2\n8,3,4\n",
        "index,0,1,2\n7,0.1,0.2,0.3\n",
        "id,true\n1,0.5\n",
    ] {
        assert_eq!(told(input), Told::Header, "{input}");
    }
}

#[test]
fn a_plus_is_a_sign_only_with_negative_numbers() {
    for (input, expected) in [
        ("id,phone\n1,+31855443322\n2,+55224433112\n", Scalar::Utf8),
        ("id,code\n1,+31\n2,44\n", Scalar::Utf8),
        ("id,change\n1,+5\n2,-3\n", Scalar::Int64),
        ("id,change\n1,+5\n2,-0.5\n", Scalar::Float64),
        ("id,change\n1,+0.5\n2,1.5\n", Scalar::Float64),
    ] {
        let setup = Setup::new(AUTO);
        let outcome = assert_any_split::<Csv>(&setup, input.as_bytes(), &[3; 20]);
        let schema = outcome.schema.expect("it is known");
        assert_eq!(schema[1].scalar, expected, "{input}");
    }
}
