//! Options that are refused, and the messages.

use pipemill_csv::Csv;
use pipemill_plugin::testing::{Setup, open};

fn refused(given: &[(&str, &str)]) -> String {
    open::<Csv>(&Setup::new(given)).expect_err("the options are not valid")
}

#[test]
fn options_that_are_a_byte() {
    assert_eq!(
        refused(&[("delimiter", "ab")]),
        "option `delimiter` takes one byte of ASCII that is no line end, or \"tab\", not \"ab\""
    );
    assert_eq!(
        refused(&[("quote", "«")]),
        "option `quote` takes one byte of ASCII that is no line end, \"tab\" or \"none\", not \"«\""
    );
    assert_eq!(
        refused(&[("delimiter", "none")]),
        "option `delimiter` takes one byte of ASCII that is no line end, or \"tab\", not \"none\""
    );
    assert_eq!(
        refused(&[("escape", "\"")]),
        "options `quote` and `escape` are the same byte; they must differ"
    );
}

#[test]
fn options_that_are_a_list() {
    assert_eq!(
        refused(&[("names", "a,,b")]),
        "option `names` takes names with a comma between them, not \"a,,b\""
    );
    assert_eq!(refused(&[("columns", "a,b,a")]), "option `columns` has `a` twice");
    assert_eq!(
        refused(&[("names", "a,b"), ("types", "c:int32")]),
        "option `types`: there is no column `c`; the 2 columns are: a, b"
    );
    assert_eq!(
        refused(&[("types", "float")]),
        "option `types` knows bytes, utf8, boolean, int32, int64, float32, float64, and auto for all \
         columns, not \"float\""
    );
    assert_eq!(
        refused(&[("types", "int64,float64")]),
        "option `types` has two types for all columns, int64 and float64; the type of one column \
         follows its name or number, as in \"float32,id:int64\" or \"0:int64\""
    );
    assert_eq!(
        refused(&[("types", "auto,a:int32,a:int64")]),
        "option `types` has column `a` twice"
    );
}

#[test]
fn options_that_do_not_go_together() {
    assert_eq!(
        refused(&[("drop_repeated_header", "true")]),
        "option `drop_repeated_header` needs header = true"
    );
    assert_eq!(
        refused(&[("emit", "row"), ("names", "a")]),
        "option `names` has no meaning with emit = \"row\""
    );
    assert_eq!(
        refused(&[("emit", "dense"), ("types", "int32")]),
        "option `types` has no meaning with emit = \"dense\""
    );
    assert_eq!(refused(&[("label", "a")]), "option `label` has no meaning with emit = \"fields\"");
}
