//! Known encodings, and the message of each error.

use pipemill_parsing::testing::{RECORDIO_MAGIC as MAGIC, write_recordio_part as part};
use pipemill_plugin::testing::{Setup, assert_all_splits};
use pipemill_recordio::RecordIo;

use crate::write::{self, parts};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

fn dmlc() -> Setup {
    Setup::new(&[])
}

fn concat() -> Setup {
    Setup::new(&[("multipart", "concat")])
}

/// The records of a file without errors, which are the same for every split.
fn records(setup: &Setup, file: &[u8]) -> Vec<Vec<u8>> {
    let outcome = outcome(setup, file);
    assert_eq!(outcome.1, []);
    outcome.0
}

/// Records, and errors as (offset, bytes skipped, message).
type Decoded = (Vec<Vec<u8>>, Vec<(u64, u64, String)>);

fn outcome(setup: &Setup, file: &[u8]) -> Decoded {
    let whole = assert_all_splits::<RecordIo>(setup, file);
    let field = |mut record: Vec<Option<Vec<u8>>>| record.remove(0).expect("never absent");
    (whole.records.into_iter().map(field).collect(), whole.errors)
}

/// The only error of a file, and the outcome if bad records are skipped.
fn only_error(setup: &Setup, file: &[u8]) -> ((u64, String), Decoded) {
    let (_, errors) = outcome(setup, file);
    assert_eq!(errors.len(), 1, "{errors:?}");
    let (offset, _, message) = errors[0].clone();
    ((offset, message), outcome(&setup.clone().skipping(), file))
}

#[test]
fn known_encodings() {
    let magic = MAGIC.to_vec();
    let vectors = [
        ("0a23d7ce 00000000", b"".to_vec()),
        ("0a23d7ce 03000000 61626300", b"abc".to_vec()),
        ("0a23d7ce 00000020 0a23d7ce 00000060", magic.clone()),
        ("0a23d7ce 00000020 0a23d7ce 00000040 0a23d7ce 00000060", magic.repeat(2)),
        (
            "0a23d7ce 04000020 61626364 0a23d7ce 02000060 65660000",
            [b"abcd", &MAGIC[..], b"ef"].concat(),
        ),
        ("0a23d7ce 08000000 610a23d7 ce626364", [b"a", &MAGIC[..], b"bcd"].concat()),
    ];
    let mut all = Vec::new();
    for (encoded, payload) in &vectors {
        let encoded = hex(encoded);
        assert_eq!(records(&dmlc(), &encoded), std::slice::from_ref(payload));
        let mut written = Vec::new();
        write::dmlc(&mut written, payload);
        // The writer pads with blanks, the encodings above with zeros.
        assert_eq!(records(&dmlc(), &written), std::slice::from_ref(payload));
        assert_eq!(written.len(), encoded.len());
        all.extend(encoded);
    }
    assert_eq!(records(&dmlc(), &all), vectors.map(|(_, payload)| payload));
}

#[test]
fn parts_are_joined_as_the_option_says() {
    let mut file = Vec::new();
    parts(&mut file, &[b"abcd", b"", b"efgh", b"i"]);
    assert_eq!(records(&concat(), &file), [b"abcdefghi"]);
    let joined = [b"abcd", &MAGIC[..], b"", &MAGIC, b"efgh", &MAGIC, b"i"].concat();
    assert_eq!(records(&dmlc(), &file), [joined]);
}

#[test]
fn an_empty_file_has_no_records() {
    assert_eq!(records(&dmlc(), b""), [b""; 0]);
}

#[test]
fn a_wrong_magic() {
    let mut file = Vec::new();
    part(&mut file, 0, b"one.");
    file.extend_from_slice(b"hello, world");
    part(&mut file, 0, b"two.");
    let (error, skipped) = only_error(&dmlc(), &file);
    let message = "expected the RecordIO magic 0a 23 d7 ce at +0, found 68 65 6c 6c; this is not \
                   RecordIO, or it is damaged here or just before";
    assert_eq!(error, (12, message.to_owned()));
    assert_eq!(skipped.0, [b"one.", b"two."]);
    assert_eq!(skipped.1, [(12, 12, message.to_owned())]);
}

#[test]
fn a_wrong_magic_between_parts() {
    let mut file = Vec::new();
    part(&mut file, 1, b"one.");
    file.extend_from_slice(b"oops");
    part(&mut file, 3, b"two.");
    part(&mut file, 0, b"three");
    let (error, skipped) = only_error(&dmlc(), &file);
    let message = "expected the RecordIO magic 0a 23 d7 ce at +12, found 6f 6f 70 73; this is not \
                   RecordIO, or it is damaged here or just before";
    assert_eq!(error, (0, message.to_owned()));
    assert_eq!(skipped, (vec![b"three".to_vec()], vec![(0, 28, message.to_owned())]));
}

#[test]
fn a_later_part_without_its_first() {
    for cflag in [2, 3] {
        let mut file = Vec::new();
        part(&mut file, cflag, b"abcd");
        part(&mut file, 3, b"efg");
        part(&mut file, 0, b"good");
        let (error, skipped) = only_error(&dmlc(), &file);
        let message = format!(
            "expected the start of a record (cflag 0 or 1) at +0, found a later part of one (cflag \
             {cflag}); its first part is missing"
        );
        assert_eq!(error, (0, message.clone()));
        assert_eq!(skipped, (vec![b"good".to_vec()], vec![(0, 24, message)]));
    }
}

#[test]
fn a_record_inside_a_record() {
    for cflag in [0, 1] {
        let mut file = Vec::new();
        part(&mut file, 1, b"abcd");
        part(&mut file, cflag, b"efgh");
        if cflag == 1 {
            part(&mut file, 3, b"");
        }
        let (error, skipped) = only_error(&concat(), &file);
        let message = format!(
            "expected the next part of the record (cflag 2 or 3) at +12, found the start of another \
             (cflag {cflag}); the last part is missing"
        );
        assert_eq!(error, (0, message.clone()));
        assert_eq!(skipped, (vec![b"efgh".to_vec()], vec![(0, 12, message)]));
    }
}

#[test]
fn invalid_cflags() {
    for cflag in 4..8 {
        let mut file = Vec::new();
        part(&mut file, cflag, b"abcd");
        part(&mut file, 0, b"good");
        let (error, skipped) = only_error(&dmlc(), &file);
        let message = format!(
            "expected cflag 0 to 3 at +0, found {cflag}; the header is damaged, or this is not \
             RecordIO"
        );
        assert_eq!(error, (0, message.clone()));
        assert_eq!(skipped, (vec![b"good".to_vec()], vec![(0, 12, message)]));
    }
}

#[test]
fn a_concat_file_read_as_dmlc() {
    let mut file = Vec::new();
    parts(&mut file, &[b"abcd", b"ef", b"g"]);
    part(&mut file, 0, b"good");
    let (error, skipped) = only_error(&dmlc(), &file);
    let message = "part at +12: expected a length that is a multiple of 4, as in all but the last \
                   part of a record, found 2; this file's parts are joined plainly: set the option \
                   multipart = \"concat\"";
    assert_eq!(error, (0, message.to_owned()));
    assert_eq!(skipped, (vec![b"good".to_vec()], vec![(0, 36, message.to_owned())]));
    assert_eq!(records(&concat(), &file), [b"abcdefg".to_vec(), b"good".to_vec()]);
}

#[test]
fn records_larger_than_max_record() {
    let setup = Setup { max_record: 8, ..dmlc() };
    let mut file = Vec::new();
    part(&mut file, 0, b"12345678");
    part(&mut file, 0, b"123456789");
    parts(&mut file, &[b"1234", b""]);
    parts(&mut file, &[b"1234", b"5", b"6"]);
    parts(&mut file, &[b"1234", b"", b"", b"5678"]);
    part(&mut file, 0, b"good");
    let setup = setup.skipping();
    let (kept, errors) = outcome(&setup, &file);
    assert_eq!(kept, [b"12345678".to_vec(), [b"1234", &MAGIC[..]].concat(), b"good".to_vec()]);
    let messages: Vec<_> = errors.iter().map(|(at, n, text)| (*at, *n, text.as_str())).collect();
    let one = "record of 9 bytes is larger than max_record (8 bytes); raise max_record if records \
               may be that large";
    let in_parts = "record of 12 bytes or more, in parts, is larger than max_record (8 bytes); raise \
                    max_record if records may be that large";
    let dialect = "part at +12: expected a length that is a multiple of 4, as in all but the last part \
               of a record, found 1; this file's parts are joined plainly: set the option multipart \
               = \"concat\"";
    assert_eq!(messages, [(16, 20, one), (56, 36, dialect), (92, 40, in_parts),]);
}

#[test]
fn an_input_that_ends_inside_a_record() {
    let mut file = Vec::new();
    part(&mut file, 0, b"good");
    parts(&mut file, &[b"abcd", b"", b"efg"]);
    for length in 0..file.len() {
        let (kept, errors) = outcome(&dmlc(), &file[..length]);
        let whole = usize::from(length >= 12);
        assert_eq!(kept.len(), whole);
        let ends_inside = (whole as u64 * 12, 0, "the input ends inside a record".to_owned());
        let between_records = length == 0 || length == 12;
        assert_eq!(errors, if between_records { vec![] } else { vec![ends_inside] });
    }
}

#[test]
fn unknown_dialects_are_refused() {
    use pipemill_plugin::{Decoder, Options};
    let given = [("multipart".to_owned(), "mlio".to_owned())];
    let refused = Options::new(&RecordIo::options(), &given).map(|_| ());
    let message = "option `multipart` takes one of dmlc, concat, not \"mlio\"";
    assert_eq!(refused, Err(message.to_owned()));
}
