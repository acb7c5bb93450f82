//! llm.c's header: its required content, and that the object has the number of tokens in it.

use pipemill_plugin::testing::{Outcome, Setup, assert_any_split, decode_split};
use pipemill_tokens::Tokens;

use crate::write::{gpt2, header, tokens};

/// The outcome with records of 4 tokens. It is the same for many splits.
fn decode(word: &str, file: &[u8]) -> Outcome {
    let setup = Setup::new(&[("length", "4"), ("type", word), ("format", "llm.c")]).skipping();
    let whole = assert_any_split::<Tokens>(&setup, file, &vec![1; file.len()]);
    for split in (0..file.len()).filter(|split| *split < 20 || *split > 1000) {
        assert_eq!(whole, decode_split::<Tokens>(&setup, file, &[split]), "split at {split}");
    }
    whole
}

#[test]
fn tokens_after_a_header() {
    for count in [0, 4, 12] {
        let outcome = decode("uint16", &gpt2(count));
        assert_eq!((outcome.records.len(), outcome.errors), (count / 4, vec![]));
    }
    let outcome = decode("uint32", &[header(20_240_801, 7, 8), tokens(8, 4)].concat());
    assert_eq!(outcome.errors, []);
    let found: Vec<_> = outcome.records.into_iter().flatten().flatten().flatten().collect();
    assert_eq!(found, tokens(8, 4));
    assert_eq!(outcome.starts, [1024, 1024 + 16]);
    let outcome = decode("uint16", b"");
    assert_eq!((outcome.records.len(), outcome.errors), (0, vec![]));
}

#[test]
fn headers_that_do_not_fit_are_refused() {
    let refused = |word: &str, header: Vec<u8>| {
        let outcome = decode(word, &[header, tokens(4, 4)].concat());
        assert!(outcome.refused && outcome.records.is_empty());
        let [(0, 0, message)] = &outcome.errors[..] else { panic!("{:?}", outcome.errors) };
        message.clone()
    };
    assert_eq!(
        refused("uint16", header(20_240_522, 1, 4)),
        "expected llm.c's magic, 20240520 or 20240801, found 20240522; the object has no header of \
         llm.c, so set format = \"raw\""
    );
    assert_eq!(
        refused("uint16", header(20_240_520, 2, 4)),
        "expected version 1 of llm.c's GPT-2 tokens, found 2"
    );
    assert_eq!(
        refused("uint16", header(20_240_801, 7, 4)),
        "expected uint16 tokens (option `type`), found llm.c's Llama 3 tokens, which are uint32; set \
         type = \"uint32\""
    );
    assert_eq!(
        refused("int32", header(20_240_801, 7, 4)),
        "expected int32 tokens (option `type`), found llm.c's Llama 3 tokens, which are uint32; set \
         type = \"uint32\""
    );
}

#[test]
fn objects_that_are_cut_short() {
    let message = |count| {
        format!(
            "expected {count} tokens, as llm.c's header says, found the end of the input before the \
             last; the object is cut short"
        )
    };
    let file = gpt2(12);
    // The record at the cut is not emitted, so that the error has a position.
    for (length, records, at) in [
        (file.len() - 1, 2, 1024 + 16),
        (file.len() - 7, 2, 1024 + 16),
        (file.len() - 8, 1, 1024 + 8),
        (1025, 0, 1024),
        (1024, 0, 0),
    ] {
        let outcome = decode("uint16", &file[..length]);
        assert_eq!(outcome.records.len(), records, "{length}");
        assert_eq!(outcome.errors, [(at, length as u64 - at, message(12))], "{length}");
    }
    for length in [1, 1023] {
        let outcome = decode("uint16", &file[..length]);
        let message = format!(
            "expected llm.c's header of 1024 bytes, found the end of the input after {length}"
        );
        assert_eq!(outcome.errors, [(0, length as u64, message)]);
    }
}

#[test]
fn objects_with_more_than_the_header_says() {
    let message = |count| {
        format!(
            "expected the end of the object after {count} tokens, as llm.c's header says, found more \
             bytes"
        )
    };
    for (count, more) in [(8, 1), (8, 8), (0, 2)] {
        let outcome = decode("uint16", &[gpt2(count), tokens(more, 1)].concat());
        assert_eq!(outcome.records.len(), count / 4);
        assert_eq!(outcome.errors, [(1024 + 2 * count as u64, more as u64, message(count))]);
    }
    let outcome = decode("uint16", &[header(20_240_520, 1, -4), tokens(4, 2)].concat());
    assert_eq!(outcome.errors[0].2, "expected the number of tokens in llm.c's header, found -4");
}
