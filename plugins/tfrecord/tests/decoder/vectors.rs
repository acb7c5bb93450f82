//! The format to the letter: known encodings, and the message for each way in which a file is wrong.

use pipemill_plugin::testing::{Setup, assert_any_split, decode_split};
use pipemill_tfrecord::TfRecord;

use crate::write::{header, masked, record};

type Told = (Vec<Vec<u8>>, Vec<(u64, u64, String)>);

/// Decodes whole, then at every split in two and byte by byte; answers records and errors.
fn outcome(setup: &Setup, file: &[u8]) -> Told {
    let whole = assert_any_split::<TfRecord>(setup, file, &vec![1; file.len()]);
    for split in 1..file.len() {
        assert_eq!(whole, decode_split::<TfRecord>(setup, file, &[split]), "split at {split}");
    }
    let field = |mut record: Vec<Option<Vec<u8>>>| record.remove(0).expect("never absent");
    (whole.records.into_iter().map(field).collect(), whole.errors)
}

fn verified() -> Setup {
    Setup::new(&[])
}

fn trusted() -> Setup {
    Setup::new(&[("verify", "false")])
}

/// Three records, and where each starts.
fn three() -> (Vec<u8>, [usize; 3]) {
    let mut file = Vec::new();
    record(&mut file, b"first");
    let second = file.len();
    record(&mut file, b"the second");
    let third = file.len();
    record(&mut file, b"third");
    (file, [0, second, third])
}

#[test]
fn known_encodings() {
    let empty = b"\x00\x00\x00\x00\x00\x00\x00\x00\x29\x03\x98\x07\xd8\xea\x82\xa2";
    let hello = b"\x05\x00\x00\x00\x00\x00\x00\x00\xea\xb2\x04\x3ehello\xbb\x1f\x1c\x19";
    let both = [&empty[..], hello, empty].concat();
    for setup in [verified(), trusted()] {
        assert_eq!(outcome(&setup, empty), (vec![b"".to_vec()], vec![]));
        assert_eq!(outcome(&setup, hello), (vec![b"hello".to_vec()], vec![]));
        let records = vec![b"".to_vec(), b"hello".to_vec(), b"".to_vec()];
        assert_eq!(outcome(&setup, &both), (records, vec![]));
        assert_eq!(outcome(&setup, b""), (vec![], vec![]));
    }
    let mut written = Vec::new();
    record(&mut written, b"hello");
    assert_eq!(written, hello);
}

#[test]
fn a_wrong_length_ends_the_object() {
    let (mut file, [_, second, _]) = three();
    file[second] ^= 4;
    let found = masked(&14u64.to_le_bytes());
    let stored = masked(&10u64.to_le_bytes());
    let message = format!(
        "the length at +0 has the masked CRC-32C {found:08x}, expected {stored:08x} as stored at +8; \
         this is not TFRecord, or the length is damaged, and what follows can't be found"
    );
    let kept = vec![b"first".to_vec()];
    let (records, errors) = outcome(&verified(), &file);
    assert_eq!((records, errors), (kept.clone(), vec![(21, 0, message.clone())]));
    let rest = (file.len() - second) as u64;
    let (records, errors) = outcome(&verified().skipping(), &file);
    assert_eq!((records, errors), (kept, vec![(21, rest, message.clone())]));
}

#[test]
fn a_length_is_not_believed_before_its_checksum() {
    // Each bit of the length: some make it reach behind the chunk, some make it too large.
    for bit in 0..64 {
        let (mut file, [_, second, _]) = three();
        file[second + bit / 8] ^= 1 << (bit % 8);
        let (records, errors) = outcome(&verified(), &file);
        assert_eq!(records, [b"first"]);
        assert_eq!(errors.len(), 1);
        assert!(errors[0].2.starts_with("the length at +0 has the masked CRC"), "{errors:?}");
    }
}

#[test]
fn a_wrong_payload_is_passed_over() {
    let (mut file, [_, second, third]) = three();
    file[second + 12 + 4] = b'S';
    let (found, stored) = (masked(b"the Second"), masked(b"the second"));
    let message = format!(
        "the payload at +12 (10 bytes) has the masked CRC-32C {found:08x}, expected {stored:08x} as \
         stored at +22; the record is damaged"
    );
    let (records, errors) = outcome(&verified(), &file);
    assert_eq!((records, errors), (vec![b"first".to_vec()], vec![(21, 0, message.clone())]));
    let (records, errors) = outcome(&verified().skipping(), &file);
    assert_eq!(records, [b"first", b"third"]);
    assert_eq!(errors, [(21, (third - second) as u64, message.clone())]);
}

#[test]
fn without_verify_checksums_are_not_looked_at() {
    let (mut file, [_, second, _]) = three();
    file[second + 8] ^= 1;
    file[second + 12] = b'T';
    let (records, errors) = outcome(&trusted(), &file);
    assert_eq!(records, [b"first".to_vec(), b"The second".to_vec(), b"third".to_vec()]);
    assert_eq!(errors, []);
}

#[test]
fn records_larger_than_the_channel_takes() {
    let (file, _) = three();
    let message = "record of 10 bytes is larger than max_record (9 bytes); raise max_record if \
                   records may be that large"
        .to_owned();
    let small = Setup { max_record: 9, ..verified() }.skipping();
    let (records, errors) = outcome(&small, &file);
    assert_eq!(records, [b"first", b"third"]);
    assert_eq!(errors, [(21, 26, message.clone())]);
    // A length that is not verified is no place to go on at.
    let small = Setup { max_record: 9, ..trusted() }.skipping();
    let (records, errors) = outcome(&small, &file);
    assert_eq!(records, [b"first"]);
    assert_eq!(errors, [(21, 47, message)]);
}

#[test]
fn a_too_large_record_is_left_at_its_header() {
    // The bytes of the record never have to arrive, and no place overflows.
    for length in [1 << 40, i64::MAX as u64, u64::MAX - 20, u64::MAX] {
        let mut file = Vec::new();
        record(&mut file, b"first");
        header(&mut file, length);
        file.extend_from_slice(b"some");
        let message = format!(
            "record of {length} bytes is larger than max_record (67108864 bytes); raise max_record \
             if records may be that large"
        );
        for setup in [verified(), trusted()] {
            let (records, errors) = outcome(&setup.skipping(), &file);
            assert_eq!(records, [b"first"]);
            assert_eq!(errors, [(21, 16, message.clone())]);
        }
    }
}

#[test]
fn an_end_inside_a_record() {
    let (file, [_, second, third]) = three();
    for setup in [verified(), trusted(), verified().skipping()] {
        for length in 0..=file.len() {
            let (records, errors) = outcome(&setup, &file[..length]);
            let seams = [0, second, third, file.len()];
            let whole = seams.iter().filter(|seam| **seam <= length).count() - 1;
            assert_eq!(records.len(), whole);
            let cut = (seams[whole] as u64, 0, "the input ends inside a record".to_owned());
            assert_eq!(errors, if seams[whole] == length { vec![] } else { vec![cut] });
        }
    }
}
