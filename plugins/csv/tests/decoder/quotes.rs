//! Quotes and backslashes whose meaning differs from the options: refused with the option that
//! reads them. No row is merged with the next one, and no text loses its quotes.

use pipemill_csv::Csv;
use pipemill_plugin::testing::{Outcome, Setup, assert_all_splits};

const TAB: (&str, &str) = ("delimiter", "tab");

fn outcome(options: &[(&str, &str)], input: &str) -> Outcome {
    assert_all_splits::<Csv>(&Setup::new(options), input.as_bytes())
}

#[track_caller]
fn refused(options: &[(&str, &str)], input: &str, hint: &str) {
    let outcome = outcome(options, input);
    assert!(outcome.refused, "{input:?}: {outcome:?}");
    assert!(outcome.errors[0].2.contains(hint), "{input:?}: {:?}", outcome.errors);
}

/// Sentences that were split into words, as corpora have them.
const SENTENCES: &str =
    "id\ts1\ts2\n1\t\" The plan is good , \" he said .\tHe said so .\n2\tRain .\tNo .\n";

#[test]
fn text_after_a_closing_quote() {
    refused(&[TAB, ("header", "true")], SENTENCES, "set quote = \"none\"");
    refused(&[], "\"a\"b,c\n", "found text after it: \"\\\"a\\\"b\"");
    refused(&[("double_quote", "false")], "\"a\"\"b\",c\n", "set quote = \"none\"");
    refused(&[], "x,\"a\"\rb\n", "set lone_cr = true");
    // This error is the reason why the first rows don't show more.
    refused(&[TAB, ("header", "auto"), ("types", "auto")], SENTENCES, "set quote = \"none\"");
    let read = outcome(&[TAB, ("header", "true"), ("quote", "none")], SENTENCES);
    assert_eq!(read.records[0][1].as_deref(), Some(&b"\" The plan is good , \" he said ."[..]));
    // Rows are emitted unchanged.
    assert_eq!(outcome(&[("emit", "row")], "\"a\"b,c\n").records.len(), 1);
    // Blanks after a quote are text, as in Python.
    assert_eq!(outcome(&[], "\"a\" ,\"b\"\t\n").errors, []);
}

#[test]
fn backslashes_before_quotes() {
    for input in [
        "id,text\n1,\"a \\\"b\\\" c\"\n2,\"plain\"\n",
        "id,text\n1,\"ends with \\\"\"\n2,\"plain\"\n",
        "id,text\n1,\"ends with \\\"\"\n2,plain\n",
        "text,id\n\"\\\"a\\\" b\",1\n",
    ] {
        let found = outcome(&[("header", "true")], input);
        let message = &found.errors[0].2;
        assert!(message.contains("set escape = \"\\\\\""), "{input:?}: {message}");
        let read = outcome(&[("header", "true"), ("escape", "\\")], input);
        assert_eq!(read.errors, [], "{input:?}");
    }
    let message = &outcome(&[], "a,b\nx\\,y,z\n").errors[0].2;
    assert!(message.contains("set escape = \"\\\\\""), "{message}");
}

/// Each line is a row itself.
#[test]
fn merged_rows() {
    let two = "1\t\" We go .\n2\tThey said \"\n";
    refused(
        &[TAB],
        two,
        "found 2 lines in one row, because of its quotes, and each of them has the 2",
    );
    refused(&[TAB, ("flexible", "true")], two, "set quote = \"none\"");
    refused(&[TAB, ("types", "0:int32")], two, "set quote = \"none\"");
    refused(&[TAB, ("null", "-")], two, "set quote = \"none\"");
    let three = "1\tx\t\" We go .\n2\ty\tRain .\n3\tz\tThey said \"\n4\tw\tv\n";
    refused(&[TAB], &format!("0\ta\tb\n{three}"), "found 3 lines");
    let semicolons = three.replace('\t', ";");
    refused(&[("delimiter", ";"), ("types", "0:int32")], &semicolons, "found 3 lines");
    assert_eq!(outcome(&[("delimiter", ";")], &semicolons).records.len(), 2);
    // With commas, the values must have the types of the columns, too.
    let typed = [("header", "true"), ("types", "auto")];
    let commas = "id,n,text\n1,5,\"We go\n2,6,they said\"\n3,7,Rain\n";
    refused(&typed, commas, "found 2 lines");
    assert_eq!(outcome(&[("header", "true")], commas).records.len(), 2);
    for text in [
        "id,n,text\n1,5,\"Well\nyes, of, course\"\n3,7,Rain\n",
        "id,text\n1,\"Mix:\n2, then bake\"\n3,Rain\n",
    ] {
        assert_eq!(outcome(&typed, text).errors, [], "{text}");
    }
    // Text with line ends and tabs.
    let text = "1\t\"a\tb\nc\td\te\"\n";
    assert_eq!(outcome(&[TAB], text).records.len(), 1);
}

/// Rows of the fast path, of the scanner and of the reference reader, at every position of a block.
#[test]
fn merged_rows_at_the_edges_of_blocks() {
    for before in (0..140).step_by(3) {
        let good = format!("{}\t\"q\"\n", "p".repeat(before));
        let input = format!("{}1\t\" We go .\n2\tThey said \"\n3\tx\n", good.repeat(3));
        for options in [&[TAB][..], &[TAB, ("flexible", "true")], &[TAB, ("escape", "\x01")]] {
            let setup = Setup::new(options);
            let outcome = pipemill_plugin::testing::assert_any_split::<Csv>(
                &setup,
                input.as_bytes(),
                &[50, 1, 1, 64],
            );
            assert_eq!((outcome.records.len(), outcome.refused), (3, true), "{before} before");
        }
    }
}

#[test]
fn a_row_over_several_lines_with_a_wrong_number_of_fields() {
    let message = &outcome(&[TAB], "1\tx\ty\n2\t\" We go .\n3\tthey said\" \tz\tw\n").errors[0].2;
    assert!(message.contains("goes over 2 lines, because of its quotes"), "{message}");
    assert!(message.contains("set quote = \"none\"") && !message.contains("flexible"), "{message}");
}
