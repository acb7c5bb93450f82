//! Objects that clearly have another format are refused, and the error names that format.

use pipemill_parsing::testing::{
    assert_refuses_other_formats, assert_takes_other_formats, other_formats,
};
use pipemill_plugin::testing::{Setup, assert_all_splits, decode_whole};
use pipemill_tokens::Tokens;

#[test]
fn other_formats_are_refused() {
    let setup = Setup::new(&[("length", "3"), ("tail", "drop")]);
    assert_refuses_other_formats::<Tokens>(&setup, "");
    assert_takes_other_formats::<Tokens>(&setup);
}

#[test]
fn a_header_is_skipped_if_the_options_say_so() {
    let array = other_formats().into_iter().find(|(what, _)| what.contains("npy"));
    let (_, array) = array.expect("an array is one of them");
    let setup = Setup::new(&[("length", "3"), ("tail", "drop"), ("header", "27")]);
    let outcome = assert_all_splits::<Tokens>(&setup, &array);
    assert_eq!((outcome.errors.len(), outcome.records.len()), (0, 33));
    let without = decode_whole::<Tokens>(&Setup::new(&[("length", "3")]), &array);
    let [(0, _, message)] = &without.errors[..] else { panic!("{:?}", without.errors) };
    assert!(message.ends_with("or set the option `header` to the bytes before its values"));
}

#[test]
fn with_the_header_of_llm_c_all_others_are_refused() {
    let setup = Setup::new(&[("length", "3"), ("format", "llm.c")]);
    assert_refuses_other_formats::<Tokens>(&setup, "decoder = \"tokens\"");
}
