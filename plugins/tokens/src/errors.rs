//! The errors of an object. After each one, nothing of the object can be decoded.

use pipemill_parsing::field_spec::type_name;
use pipemill_plugin::DecodeError;

use crate::rules::Rules;

/// The object ends at `at` with fewer tokens than a record has.
#[cold]
pub(crate) fn short_record(rules: &Rules, at: usize, tokens: usize) -> DecodeError {
    let message = format!(
        "expected {} tokens (option `length`), found the end of the object after {tokens}; set tail = \
         \"drop\" to leave them out, or length to a divisor of the number of tokens",
        rules.length
    );
    DecodeError::fatal(at, message)
}

/// The object ends inside a token. Its last record starts at `at` and has `bytes` bytes.
#[cold]
pub(crate) fn cut_token(rules: &Rules, at: usize, bytes: usize) -> DecodeError {
    let message = format!(
        "expected tokens of {} bytes ({}), found the end of the object inside one, {bytes} bytes \
         after the start of a record; the object is cut short, or the option `type` or `header` is \
         not right",
        rules.token_bytes(),
        type_name(rules.scalar)
    );
    DecodeError::fatal(at, message)
}

/// The input ends inside llm.c's header.
#[cold]
pub(crate) fn cut_header(header: usize, held: usize) -> DecodeError {
    let message = format!(
        "expected llm.c's header of {header} bytes, found the end of the input after {held}"
    );
    DecodeError::fatal(0, message)
}

/// llm.c's header has a negative number of tokens.
#[cold]
pub(crate) fn negative_count(count: i32) -> DecodeError {
    DecodeError::fatal(0, format!("expected the number of tokens in llm.c's header, found {count}"))
}

/// The object has fewer tokens than llm.c's header says. The last record, or its existing part,
/// starts at `at`.
#[cold]
pub(crate) fn cut_short(count: u64, at: usize) -> DecodeError {
    let message = format!(
        "expected {count} tokens, as llm.c's header says, found the end of the input before the last; \
         the object is cut short"
    );
    DecodeError::fatal(at, message)
}

/// The object has more bytes than llm.c's header says. They start at `at`.
#[cold]
pub(crate) fn surplus(count: u64, at: usize) -> DecodeError {
    let message = format!(
        "expected the end of the object after {count} tokens, as llm.c's header says, found more bytes"
    );
    DecodeError::fatal(at, message)
}
