//! Known encodings, and the message of each error.

use pipemill_parsing::testing::{masked_crc32c, write_tfrecord as record, write_tfrecord_header};
use pipemill_plugin::testing::{Setup, assert_all_splits};
use pipemill_tfrecord::TfRecord;

/// Records, and errors as (offset, bytes skipped, message).
type Decoded = (Vec<Vec<u8>>, Vec<(u64, u64, String)>);

/// The outcome, which is the same for every split.
fn outcome(setup: &Setup, file: &[u8]) -> Decoded {
    let whole = assert_all_splits::<TfRecord>(setup, file);
    let field = |mut record: Vec<Option<Vec<u8>>>| record.remove(0).expect("never absent");
    (whole.records.into_iter().map(field).collect(), whole.errors)
}

fn verified() -> Setup {
    Setup::new(&[])
}

fn unverified() -> Setup {
    Setup::new(&[("verify", "false")])
}

/// Three records, and the start of each.
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
    for setup in [verified(), unverified()] {
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
    let found = masked_crc32c(&14u64.to_le_bytes());
    let stored = masked_crc32c(&10u64.to_le_bytes());
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
    // Each bit of the length is flipped: some lengths then end after the chunk, some are too large.
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
fn a_record_with_a_wrong_payload_is_skipped() {
    let (mut file, [_, second, third]) = three();
    file[second + 12 + 4] = b'S';
    let (found, stored) = (masked_crc32c(b"the Second"), masked_crc32c(b"the second"));
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
fn without_verify_checksums_are_not_checked() {
    let (mut file, [_, second, _]) = three();
    file[second + 8] ^= 1;
    file[second + 12] = b'T';
    let (records, errors) = outcome(&unverified(), &file);
    assert_eq!(records, [b"first".to_vec(), b"The second".to_vec(), b"third".to_vec()]);
    assert_eq!(errors, []);
}

#[test]
fn records_larger_than_max_record() {
    let (file, _) = three();
    let message = "record of 10 bytes is larger than max_record (9 bytes); raise max_record if \
                   records may be that large"
        .to_owned();
    let small = Setup { max_record: 9, ..verified() }.skipping();
    let (records, errors) = outcome(&small, &file);
    assert_eq!(records, [b"first", b"third"]);
    assert_eq!(errors, [(21, 26, message.clone())]);
    // After a length that is not verified decoding can't go on.
    let small = Setup { max_record: 9, ..unverified() }.skipping();
    let (records, errors) = outcome(&small, &file);
    assert_eq!(records, [b"first"]);
    assert_eq!(errors, [(21, 47, message)]);
}

#[test]
fn a_record_that_is_too_large_is_refused_at_its_header() {
    // The error comes before the bytes of the record arrive, and no offset overflows.
    for length in [1 << 40, i64::MAX as u64, u64::MAX - 20, u64::MAX] {
        let mut file = Vec::new();
        record(&mut file, b"first");
        write_tfrecord_header(&mut file, length);
        file.extend_from_slice(b"some");
        let message = format!(
            "record of {length} bytes is larger than max_record (67108864 bytes); raise max_record \
             if records may be that large"
        );
        for setup in [verified(), unverified()] {
            let (records, errors) = outcome(&setup.skipping(), &file);
            assert_eq!(records, [b"first"]);
            assert_eq!(errors, [(21, 16, message.clone())]);
        }
    }
}

#[test]
fn an_input_that_ends_inside_a_record() {
    let (file, [_, second, third]) = three();
    for setup in [verified(), unverified(), verified().skipping()] {
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
