//! Lines that are refused: the message, and that decoding continues at the next line.

use pipemill_plugin::testing::Setup;

use crate::outcome;

#[test]
fn lines_longer_than_max_record() {
    let setup = Setup { max_record: 5, ..Setup::new(&[]) };
    let message = "line is longer than max_record (5 bytes); raise max_record if lines may be that \
                   long";
    let text = b"12345\n12345\r\n123456\n1234567890\r\nlast\n";
    let (records, errors) = outcome(&setup, text);
    assert_eq!(records, [b"12345", b"12345"]);
    assert_eq!(errors, [(13, 0, message.to_owned())]);
    let (records, errors) = outcome(&setup.clone().skipping(), text);
    assert_eq!(records, [&b"12345"[..], b"12345", b"last"]);
    assert_eq!(errors, [(13, 7, message.to_owned()), (20, 12, message.to_owned())]);
    // A last line without an LF: a CR at its end counts, and nothing is left after the error.
    for text in [&b"123456"[..], b"12345\r", b"1234567", b"12345678901234567890"] {
        let (records, errors) = outcome(&setup.clone().skipping(), text);
        assert_eq!(records, [b""; 0]);
        assert_eq!(errors, [(0, text.len() as u64, message.to_owned())]);
    }
}

#[test]
fn max_record_of_zero() {
    let setup = Setup { max_record: 0, ..Setup::new(&[]) }.skipping();
    let (records, errors) = outcome(&setup, b"\na\n\r\n\nbc\n");
    assert_eq!(records, [b""; 3]);
    assert_eq!(errors.len(), 2);
}

#[test]
fn lines_that_are_not_utf8() {
    let setup = Setup::new(&[("utf8", "true")]);
    let text = b"good\nb\xffd\r\n\xc3\xa4\ncut \xe2\x82\nfine\n\xf0\x9f";
    let message = |byte: &str, place, encoding| {
        format!(
            "expected UTF-8, found byte {byte} at +{place}; it looks like {encoding} -t UTF-8` \
             converts it); utf8 = false takes lines as bytes"
        )
    };
    let (latin, windows) = ("Latin-1 (`iconv -f LATIN1", "Windows-1252 (`iconv -f WINDOWS-1252");
    let (records, errors) = outcome(&setup, text);
    assert_eq!(records, [b"good"]);
    assert_eq!(errors, [(5, 0, message("ff", 1, latin))]);
    let (records, errors) = outcome(&setup.skipping(), text);
    assert_eq!(records, [&b"good"[..], b"\xc3\xa4", b"fine"]);
    let wanted = [
        (5, 5, message("ff", 1, latin)),
        (13, 7, message("e2", 4, windows)),
        (25, 2, message("f0", 0, windows)),
    ];
    assert_eq!(errors, wanted);
    // Without `utf8` the same bytes are valid.
    assert_eq!(outcome(&Setup::new(&[("utf8", "false")]), text).1, []);
}
