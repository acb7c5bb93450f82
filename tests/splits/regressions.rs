//! Minimal cases of what was wrong once, with the reason, so that they are tried every time.

use crate::host::{self, Bad, Bytes, End, Job, Setup};

fn job(decoder: &'static str, object: &[u8]) -> Job {
    Job {
        decoder,
        options: Vec::new(),
        objects: vec![Bytes(object.to_vec())],
        on_error: Bad::Fail,
        max_record: 64 << 20,
        max_errors: 0,
    }
}

/// A field that was made and is empty, in a call that made nothing else, was placed as if it stood in
/// the chunk, two gigabytes behind its start.
#[test]
fn a_made_field_that_is_empty() {
    let first_and_last_part = b"\x0a\x23\xd7\xce\0\0\0\x20\x0a\x23\xd7\xce\0\0\0\x60";
    let plain = b"\x0a\x23\xd7\xce\x04\0\0\0data";
    let options = vec![("multipart", "concat".to_owned())];
    for object in [&first_and_last_part[..], &[&plain[..], first_and_last_part].concat()] {
        let seen = host::run(
            &Job { options: options.clone(), ..job("recordio", object) },
            &Setup::in_one_piece(),
        );
        assert_eq!(seen.end, End::Ended);
        assert_eq!(
            seen.records.last().map(|kept| kept.fields.clone()),
            Some(vec![Some(Vec::new())])
        );
    }
}

/// A long chunk is shown again only when it has grown by half; when reading failed before that, a
/// record whose end had come was lost.
#[test]
fn the_end_of_a_long_line_right_before_reading_fails() {
    let mut text = vec![b'x'; 100_000];
    text[80_000] = b'\n';
    let way =
        Setup { pieces: vec![70_000, 15_000], fails_at: Some(85_000), ..Setup::in_one_piece() };
    let seen = host::run(&job("lines", &text), &way);
    assert_eq!(seen.records.len(), 1);
    assert!(
        matches!(seen.end, End::Failed { record: Some(1), offset: Some(85_000), .. }),
        "{:?}",
        seen.end
    );
}
