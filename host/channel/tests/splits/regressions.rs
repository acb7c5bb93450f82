//! Minimal cases of former bugs, with the reason, so that they are tried every time.

use pipemill_types::{BatchAcross, BatchSize, Tail};

use crate::host::{self, Bad, Bytes, End, Job, Setup};
use crate::native;

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

/// A field that was made and is empty, in a call that made nothing else, was placed as if it were
/// in the chunk, two gigabytes after its start.
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

/// The payload of a batch of a fixed size ended right at the end of its memory. The chunk of the
/// next object was placed at the next aligned offset, which lies behind the memory, and the host
/// panicked.
#[test]
fn an_object_that_begins_in_a_batch_whose_memory_is_full() {
    let parts = b"\x0a\x23\xd7\xce\0\0\0\x20\x0a\x23\xd7\xce\x01\0\0\x60x\0\0\0";
    let plain = b"\x0a\x23\xd7\xce\x04\0\0\0data";
    let job = Job {
        options: vec![("multipart", "concat".to_owned())],
        objects: [&parts[..], &plain[..], &parts[..], &plain[..]].map(|o| Bytes(o.to_vec())).into(),
        ..job("recordio", b"")
    };
    let expected = [&b"x"[..], b"data", b"x", b"data"].map(|value| vec![Some(value.to_vec())]);
    for records in [2, 3] {
        // In the smallest of these memories, the made byte is the last one.
        for slot in 1..200 {
            let size = BatchSize { records, tail: Tail::Keep, across: BatchAcross::Epoch };
            let whole = Setup { come_at_once: true, ..Setup::in_one_piece() };
            let way = Setup { slot, batch: Some(size), ..whole };
            let seen = host::run(&job, &way);
            assert_eq!(seen.end, End::Ended, "slots of {slot} bytes");
            let records = seen.cuts.iter().flat_map(|cut| &cut.records);
            let fields: Vec<_> = records.map(|(_, fields)| fields.clone()).collect();
            assert_eq!(fields, expected, "slots of {slot} bytes");
        }
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

/// A run resumed at the start of an object that was not the first one. It found the types of fields
/// again from this object, or from the one after it if this one was empty.
#[test]
fn the_types_of_a_run_that_goes_on_at_the_start_of_a_later_object() {
    let data = (&b"1,1\n2,2\n"[..], &b"3,3\n4,4.5\n5,5\n6,6\n"[..]);
    for objects in [vec![data.0, data.1], vec![data.0, b"", data.1]] {
        types_go_on(&objects);
    }
}

fn types_go_on(objects: &[&[u8]]) {
    let job = Job {
        options: vec![("types", "auto".to_owned())],
        objects: objects.iter().map(|object| Bytes(object.to_vec())).collect(),
        on_error: Bad::Skip,
        max_errors: 1_000_000,
        ..job("csv", b"")
    };
    let size = BatchSize { records: 1, tail: Tail::Keep, across: BatchAcross::Epoch };
    let way = Setup { batch: Some(size), ..Setup::in_one_piece() };
    let whole = host::run(&job, &way);
    assert_eq!(whole.cuts.len(), 5);
    let schema = whole.schema.as_ref().map(|own| way.with_added(own));
    let mut resume = whole.cuts[2].resume(schema.as_deref());
    let last = objects.len() as u64 - 1;
    assert_eq!((resume.position.object_number, resume.position.offset), (last, 0));
    if last > 1 {
        // As if the records before the empty object had been delivered to the program.
        (resume.position.object_number, resume.position.object) = (1, String::new());
    }
    let rest = host::run(&job, &Setup { resume: Some(resume), ..way });
    assert_eq!((rest.schema, rest.cuts), (whole.schema, whole.cuts[3..].to_vec()));
}

/// A worker continued after the error that ended the channel, and the fields that it found then
/// were declared.
#[test]
fn an_error_too_many_before_the_fields_are_known() {
    let long = b"00.0,0.000,0.000000,-00000.0\n";
    let job = Job {
        options: vec![("types", "float32".to_owned())],
        on_error: Bad::Skip,
        max_record: 9,
        ..job("csv", &[&long.repeat(3)[..], b"0.0,000.000,-000.000000000,0.0\n,,0.0,0.0"].concat())
    };
    let whole = host::run(&job, &Setup::in_one_piece());
    assert!(matches!(whole.end, End::Failed { .. }), "{:?}", whole.end);
    assert_eq!(whole.schema, None);
    let split = host::run(&job, &Setup { workers: 2, ..Setup::in_one_piece() });
    assert_eq!(whole.difference(&split), None);
}

/// A pipe gives few bytes at a time: each of its reads was a call of the decoder, which takes
/// longer than to decode them.
#[test]
fn bytes_that_are_there_already_are_shown_in_one_call() {
    const PIECE: usize = 1 << 10;
    let text = b"a line of text\n".repeat(1 << 16);
    let way = Setup { pieces: vec![PIECE; text.len() / PIECE], ..Setup::in_one_piece() };
    let job = job("lines", &text);
    let (seen, calls) = host::run_counted(&job, &way);
    assert!(calls as usize >= text.len() / PIECE, "{calls} calls: what is there has to be shown");
    let (other, calls) = host::run_counted(&job, &Setup { come_at_once: true, ..way });
    assert!((calls as usize) < text.len() / (32 << 10), "{calls} calls");
    assert_eq!(seen.difference(&other), None);
}

/// An object that has more errors than are skipped, and later something that is refused, ends at
/// the errors.
#[test]
fn more_errors_than_are_skipped_before_a_refusal() {
    let row = "0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,";
    let rows = format!("{row}0.0\n0.0,{}0.0\n{row}0.0\n{row}\"\n{row}\"a\n", &row[3..]);
    let text = rows.repeat(3);
    let job = Job {
        options: vec![("emit", "dense".to_owned())],
        on_error: Bad::Skip,
        ..job("csv", text.trim_end().as_bytes())
    };
    let seen = host::run(&job, &Setup::in_one_piece());
    native::compare::<pipemill_csv::Csv>(&job, &seen).expect("the same");
    assert_eq!(seen.records.len(), 1);
}
