//! The message of each error, and where decoding continues.

use pipemill_npy::Npy;
use pipemill_plugin::testing::{Setup, decode_whole};

use crate::outcome;
use crate::write::{array, dict, header};

fn good() -> Vec<u8> {
    array("'<i2'", "(2,)", b"aabb")
}

/// The message for a bad array between two good ones; `skipped` is the number of skipped bytes. All
/// rows of the good ones are read.
fn message_for(bad: &[u8], skipped: usize) -> String {
    let good = good();
    let file = [&good, bad, &good].concat();
    let outcome = outcome(&Setup::new(&[]).skipping(), &file);
    let [(at, length, message)] = &outcome.errors[..] else { panic!("{:?}", outcome.errors) };
    assert_eq!(
        (*at, *length, outcome.records.len()),
        (good.len() as u64, skipped as u64, 4),
        "{message}"
    );
    message.clone()
}

/// The message with which the decoder refuses an array.
fn refusal_of(array: &[u8]) -> String {
    let outcome = outcome(&Setup::new(&[]).skipping(), &[&good(), array].concat());
    assert_eq!((outcome.records.len(), outcome.refused), (2, true), "{:?}", outcome.errors);
    outcome.errors[0].2.clone()
}

#[test]
fn headers_that_are_not_valid() {
    let end = "; this is not .npy, or there are bytes after an array";
    let cases = [
        ("", "a Python literal", 10),
        ("1", "a dict with the keys 'descr', 'fortran_order' and 'shape'", 10),
        (
            "{'descr': '<i2', 'shape': ()}",
            "a dict with the keys 'descr', 'fortran_order' and 'shape'",
            10,
        ),
        (
            "{'descr': '<i2', 'fortran_order': False, 'shape': (), 'x': 1}",
            "a dict with the keys 'descr', 'fortran_order' and 'shape'",
            64,
        ),
        ("{'shape': (), 'descr': '<i2', 'fortran_order': False, 'shape': ()}", "each key once", 64),
        ("{'descr': '<i2', 'fortran_order': 0, 'shape': ()}", "True or False", 44),
        ("{'descr': '<i2', 'fortran_order': False, 'shape': (2)}", "a tuple, as in `(3,)`", 60),
        ("{'descr': '<i2', 'fortran_order': False, 'shape': (-2,)}", "a Python literal", 61),
        ("{'descr': '<i2', 'fortran_order': False, 'shape': 2}", "a shape, as in (2, 3)", 60),
        ("{'descr': '<i2', 'fortran_order': False, 'shape': ('2',)}", "a shape, as in (2, 3)", 61),
        (
            "{'descr': '<i2', 'fortran_order': False, 'shape': (4294967296, 2147483648)}",
            "a shape of fewer than 2^63 bytes of data",
            60,
        ),
        (
            "{'descr': '<i2', 'fortran_order': False, 'shape': (18446744073709551615, 18446744073709551615, 2)}",
            "a shape of fewer than 2^63 bytes of data",
            60,
        ),
        ("{'descr': 'i2', 'fortran_order': False, 'shape': ()}", "a type, as in '<f4'", 20),
        (
            "{'descr': [], 'fortran_order': False, 'shape': ()}",
            "members, as in [('x', '<f4'), ('y', '<i8', (3,))]",
            20,
        ),
        (
            "{'descr': [('a', '<i2'), ('a', '<i2')], 'fortran_order': False, 'shape': ()}",
            "a name that no other member has",
            35,
        ),
        (
            "{'descr': [('', '<i2')], 'fortran_order': False, 'shape': ()}",
            "a name for the member",
            21,
        ),
        (
            "{'descr': [('a', '<i8', (4294967296, 4294967296)), ('', '|V1')], 'fortran_order': False, 'shape': ()}",
            "fewer than 2^63 bytes",
            21,
        ),
        ("__import__('os')", "a Python literal", 10),
    ];
    for (text, expected, at) in cases {
        let found = match &text[at - 10..] {
            "" => "the end of the header".to_owned(),
            rest if rest.len() > 24 => format!("`{}…`", &rest[..24]),
            rest => format!("`{rest}`"),
        };
        let message = format!("expected {expected}, found {found} at byte {at} of the header{end}");
        let bad = header(text);
        assert_eq!(message_for(&bad, bad.len()), message, "{text}");
    }
    let long = [b"\x93NUMPY\x02\0".as_slice(), &600_000u32.to_le_bytes()].concat();
    assert_eq!(
        message_for(&long, long.len()),
        format!("expected a header of at most 512 KiB, found one of 600000 bytes{end}")
    );
}

#[test]
fn bytes_after_an_array() {
    let message = "expected an array of NumPy, which starts with `\\x93NUMPY`, found `extra\\x93`; this is not \
                   .npy, or there are bytes after an array";
    assert_eq!(message_for(b"extra", 5), message);
    let outcome = outcome(&Setup::new(&[]), &[&good()[..], b"PK\x03"].concat());
    let message = "expected an array of NumPy, whose header has at least 6 bytes, found the end of the input \
                   after 3; it is cut short, or this is not .npy";
    assert_eq!(
        (outcome.records.len(), &outcome.errors[..]),
        (2, &[(good().len() as u64, 0, message.to_owned())][..])
    );
}

#[test]
fn what_is_not_npy() {
    let message = |file: &[u8]| {
        let outcome = outcome(&Setup::new(&[]), file);
        assert_eq!(outcome.errors.len(), 1);
        (outcome.errors[0].0, outcome.errors[0].2.clone())
    };
    assert_eq!(
        message(b"PK\x01\x02 a zip"),
        (
            0,
            "expected an array of NumPy, which starts with `\\x93NUMPY`, found `PK\\x01\\x02 a`; this is not .npy"
                .to_owned()
        )
    );
    let empty = decode_whole::<Npy>(&Setup::new(&[]), b"");
    assert_eq!(
        empty.errors,
        [(
            0,
            0,
            "expected an array of NumPy, whose header has at least 6 bytes, found the end of the input after \
             0; it is cut short, or this is not .npy"
                .to_owned()
        )]
    );
    // The search finds an array in other bytes, but not a magic that is cut.
    let file = [&b"other\x93NUMP bytes"[..], &good(), b"\x93NUM"].concat();
    let outcome = outcome(&Setup::new(&[]).skipping(), &file);
    assert_eq!((outcome.records.len(), outcome.errors.len()), (2, 2));
}

#[test]
fn arrays_that_do_not_fit_the_first() {
    let other = array("'<i2'", "(2, 3)", b"000011112222");
    assert_eq!(
        message_for(&other, other.len()),
        "expected an array with rows of int16, as before in this input, found rows of int16[3]"
    );
    let other = array("[('a', '<i2'), ('b', '<M8[us]', (2,))]", "(1,)", &[0; 18]);
    assert_eq!(
        message_for(&other, other.len()),
        "expected an array with rows of int16, as before in this input, found rows of a:int16, b:int64[2] \
         (timestamp[us])"
    );
    // Its data is not read, even if it looks like an array.
    let inner = array("'<i2'", "(1,)", b"no");
    let other = array("'|u1'", &format!("({},)", inner.len()), &inner);
    message_for(&other, other.len());
}

#[test]
fn values_that_are_not_valid() {
    let file =
        array("[('a', '|u1'), ('b', '|b1', (2,))]", "(4,)", b"1\0\x012\x01\x023\xff\x004\0\0");
    let outcome = outcome(&Setup::new(&[]).skipping(), &file);
    let at = (file.len() - 12) as u64;
    let message = |row, found, byte| {
        format!(
            "row {row}: field `b`: expected a boolean, 0 or 1, found {found} at byte {byte} of the record"
        )
    };
    assert_eq!(outcome.errors, [(at + 3, 3, message(1, 2, 2)), (at + 6, 3, message(2, 255, 1))]);
    assert_eq!(outcome.records.len(), 2);
    let outcome = crate::outcome(&Setup::new(&[]), &file);
    assert_eq!((outcome.records.len(), &outcome.errors[0].2), (1, &message(1, 2, 2)));
}

#[test]
fn rows_larger_than_max_record() {
    let file =
        [array("'<i2'", "(2, 3)", b"000011112222"), array("'<i2'", "(1, 2)", b"3333")].concat();
    let setup = Setup { max_record: 5, ..Setup::new(&[]).skipping() };
    let outcome = outcome(&setup, &file);
    let message = "rows of 6 bytes are larger than max_record (5 bytes); raise max_record";
    let first = array("'<i2'", "(2, 3)", b"000011112222").len() as u64;
    assert_eq!(outcome.errors, [(0, first, message.to_owned())]);
    assert_eq!(outcome.records.len(), 1);
    // This is known from the header alone.
    let huge = array("'<i2'", "(1073741824, 1073741824)", b"");
    let outcome = crate::outcome(&setup, &huge);
    assert_eq!(
        outcome.errors[0].2,
        "rows of 2147483648 bytes are larger than max_record (5 bytes); raise max_record"
    );
}

#[test]
fn arrays_that_are_cut_short() {
    let file = array("'<i2'", "(3, 2)", b"000011112222");
    let data = file.len() - 12;
    for length in 0..file.len() {
        let outcome = if length == 0 {
            decode_whole::<Npy>(&Setup::new(&[]), b"")
        } else {
            outcome(&Setup::new(&[]).skipping(), &file[..length])
        };
        let [(at, _, message)] = &outcome.errors[..] else {
            panic!("{length}: {:?}", outcome.errors)
        };
        let (wanted, place) = match length {
            0..6 => (format!("expected an array of NumPy, whose header has at least 6 bytes, found the end of the input after {length}; it is cut short, or this is not .npy"), 0),
            6..8 => (format!("expected an array of NumPy, whose header has at least 8 bytes, found the end of the input after {length}; it is cut short, or this is not .npy"), 0),
            8..10 => (format!("expected an array of NumPy, whose header has at least 10 bytes, found the end of the input after {length}; it is cut short, or this is not .npy"), 0),
            length if length < data => (format!("expected an array of NumPy, whose header has at least {data} bytes, found the end of the input after {length}; it is cut short, or this is not .npy"), 0),
            length if length == data => ("expected 12 bytes of data for the shape (3, 2), found the end of the input after the header; the array is cut short".to_owned(), 0),
            length => {
                let rows = (length - data - 1) / 4;
                let bytes = length - data - rows * 4;
                (
                    format!("expected 3 rows of 4 bytes, found the end of the input after {rows} rows and {bytes} bytes; the array is cut short"),
                    data + rows * 4,
                )
            }
        };
        assert_eq!((message, *at), (&wanted, place as u64), "{length}");
        assert_eq!(outcome.records.len(), place.saturating_sub(data) / 4);
    }
}

#[test]
fn what_is_refused() {
    let start = "expected an array that can be read row by row, found one with ";
    let cases = [
        (
            "'>i4'",
            "(1,)",
            "big-endian numbers (`>i4`); save the array as x.astype(x.dtype.newbyteorder('<'))",
        ),
        (
            "'>M8[us]'",
            "(1,)",
            "big-endian numbers (`>M8[us]`); save the array as x.astype(x.dtype.newbyteorder('<'))",
        ),
        (
            "'|O'",
            "(1,)",
            "Python objects (`|O`), which are pickled and can run any code; save arrays of numbers or bytes",
        ),
        ("'<U3'", "(1,)", "text in UTF-32 (`<U3`); save the array as np.char.encode(x, 'utf-8')"),
        (
            "'<c8'",
            "(1,)",
            "complex numbers (`<c8`); save the array as np.stack([x.real, x.imag], axis=-1)",
        ),
        (
            "'<M8[D]'",
            "(1,)",
            "dates and times in another unit than s, ms, us or ns (`<M8[D]`); save the array as x.astype('datetime64[us]')",
        ),
        (
            "'<M8[25us]'",
            "(1,)",
            "dates and times in another unit than s, ms, us or ns (`<M8[25us]`); save the array as x.astype('datetime64[us]')",
        ),
        (
            "'<M8'",
            "(1,)",
            "dates and times in another unit than s, ms, us or ns (`<M8`); save the array as x.astype('datetime64[us]')",
        ),
        ("'<m8[s]'", "(1,)", "durations (`<m8[s]`); save the array as x.astype('int64')"),
        ("'<f16'", "(1,)", "floats of 16 bytes (`<f16`); save the array as x.astype('<f8')"),
        (
            "'|V2'",
            "(1,)",
            "bytes of a type that NumPy does not know (`|V2`), as bfloat16 is; save the array as a type of NumPy, or as x.view('u1')",
        ),
        ("'|S0'", "(1,)", "elements of the type `|S0`, which is not known here"),
        ("'<i3'", "(1,)", "elements of the type `<i3`, which is not known here"),
        ("'<f4'", "(2, 0)", "rows without bytes: dimension 1 of the shape (2, 0) is 0"),
        ("'<f4'", "(2, 4294967296)", "a dimension of 2^32 or more in a record"),
        (
            "'|S3'",
            "(2, 4, 4)",
            "bytes in several dimensions (`|S3`); a field can have a list of them",
        ),
        (
            "[('a', '>i4')]",
            "(1,)",
            "member `a` with big-endian numbers (`>i4`); save the array as x.astype(x.dtype.newbyteorder('<'))",
        ),
        ("[('a', '<i4', (0,))]", "(1,)", "member `a` with a dimension of 0"),
        (
            "[('a', '|V4')]",
            "(1,)",
            "member `a` with bytes of a type that NumPy does not know (`|V4`), as bfloat16 is; save the array as a type of NumPy, or as x.view('u1')",
        ),
        (
            "[('a', [('b', '<i4')])]",
            "(1,)",
            "member `a` with members of its own; save the array as np.lib.recfunctions.structured_to_unstructured(x), or flatten the type",
        ),
        (
            "[('a', '|O')]",
            "(1,)",
            "member `a` with Python objects (`|O`), which are pickled and can run any code; save arrays of numbers or bytes",
        ),
        (
            "[('a', '<i4')]",
            "(2, 3)",
            "members in several dimensions, the shape is (2, 3); save the array as x.ravel()",
        ),
    ];
    for (descr, shape, message) in cases {
        assert_eq!(refusal_of(&array(descr, shape, b"")), format!("{start}{message}"));
    }
    let fortran = dict("'<i4'", "(2, 3)").replace("False", "True");
    assert_eq!(
        refusal_of(&header(&fortran)),
        format!(
            "{start}the order of Fortran, in which no row is in one piece; save the array as np.ascontiguousarray(x)"
        )
    );
    let mut version = good();
    version[6] = 4;
    assert_eq!(refusal_of(&version), "expected version 1.0, 2.0 or 3.0 of the format, found 4.0");
    version[6..8].copy_from_slice(&[1, 1]);
    assert_eq!(refusal_of(&version), "expected version 1.0, 2.0 or 3.0 of the format, found 1.1");
}
