//! Tokens at the end of an object that don't fill a record.

use pipemill_plugin::testing::{Outcome, Setup, assert_all_splits};
use pipemill_tokens::Tokens;

use crate::write::{gpt2, tokens};

fn decode(options: &[(&str, &str)], file: &[u8], skip: bool) -> Outcome {
    assert_all_splits::<Tokens>(&Setup { skip, ..Setup::new(options) }, file)
}

#[test]
fn a_short_last_record_is_an_error() {
    let message = "expected 4 tokens (option `length`), found the end of the object after 3; set tail \
                   = \"drop\" to leave them out, or length to a divisor of the number of tokens";
    for header in ["0", "3"] {
        let options = [("length", "4"), ("header", header)];
        let file = [vec![b'#'; header.parse().expect("a number")], tokens(11, 2)].concat();
        let at = file.len() as u64 - 6;
        let outcome = decode(&options, &file, true);
        assert_eq!(outcome.records.len(), 2);
        assert_eq!(outcome.errors, [(at, 6, message.to_owned())]);
        assert!(!outcome.refused);
        let outcome = decode(&options, &file, false);
        assert_eq!((outcome.records.len(), outcome.errors), (2, vec![(at, 0, message.to_owned())]));
    }
    let outcome = decode(&[("length", "4"), ("format", "llm.c")], &gpt2(11), true);
    assert_eq!(outcome.records.len(), 2);
    assert_eq!(outcome.errors, [(1024 + 16, 6, message.to_owned())]);
}

#[test]
fn a_short_last_record_is_dropped() {
    let options = [("length", "4"), ("tail", "drop")];
    for (count, records) in [(11, 2), (3, 0), (8, 2), (0, 0)] {
        let outcome = decode(&options, &tokens(count, 2), false);
        assert_eq!((outcome.records.len(), outcome.errors), (records, vec![]));
        let llm_c = [options[0], options[1], ("format", "llm.c")];
        let outcome = decode(&llm_c, &gpt2(count), false);
        assert_eq!((outcome.records.len(), outcome.errors), (records, vec![]));
    }
}

/// This is damage, or the wrong type: `tail` is for complete tokens.
#[test]
fn an_object_that_ends_inside_a_token() {
    for tail in ["error", "drop"] {
        let options = [("length", "2"), ("type", "uint32"), ("tail", tail)];
        let outcome = decode(&options, &tokens(9, 2), true);
        assert_eq!(outcome.records.len(), 2);
        let message = "expected tokens of 4 bytes (uint32), found the end of the object inside one, 2 \
                       bytes after the start of a record; the object is cut short, or the option \
                       `type` or `header` is not right";
        assert_eq!(outcome.errors, [(16, 2, message.to_owned())]);
    }
}

#[test]
fn an_object_that_ends_inside_a_header() {
    let options = [("length", "2"), ("header", "10"), ("tail", "drop")];
    let outcome = decode(&options, b"head", true);
    let message = "expected 6 more bytes of the header, found the end of the input; the object is cut \
                   short, or the option `header` is not its size";
    assert_eq!(outcome.errors, [(3, 1, message.to_owned())]);
}
