//! Tests of the decoder outside the sandbox, with the SDK's test host. `data/make.py` made the
//! images, and Pillow's arrays of them.

use jpeg::Jpeg;
use pipemill_plugin::testing::{
    Outcome, Record, Setup, assert_any_split, decode_once, decode_whole, open,
};

const KINDS: &[u8] = include_bytes!("../data/kinds.tar");
const PILLOWS: &[u8] = include_bytes!("../data/kinds.rgb");
const PILLOWS_DRAFTS: &[u8] = include_bytes!("../data/drafts.rgb");
const EXPECTED: &str = include_str!("../data/kinds.jsonl");

const BLOCK: usize = 512;

/// Settings for arrays of this size, with keys.
fn sized(size: &str) -> Setup {
    Setup::new(&[("size", size), ("key", "true")])
}

fn field(record: &Record, index: usize) -> &[u8] {
    record[index].as_deref().expect("no field is absent")
}

fn key(record: &Record) -> String {
    String::from_utf8_lossy(field(record, 0)).into_owned()
}

/// The records of an archive without errors.
#[track_caller]
fn records(setup: &Setup, archive: &[u8]) -> Vec<Record> {
    let Outcome { records, errors, .. } = decode_whole::<Jpeg>(setup, archive);
    assert_eq!(errors, []);
    records
}

/// The JPEGs of `kinds.tar`, with their names.
fn jpegs() -> Vec<(String, Vec<u8>)> {
    let (mut at, mut all) = (0, Vec::new());
    while KINDS[at] != 0 {
        let text = |range: std::ops::Range<usize>| {
            let text = String::from_utf8_lossy(&KINDS[at..][range]).into_owned();
            text.trim_end_matches('\0').to_owned()
        };
        let size = usize::from_str_radix(&text(124..135), 8).expect("a size");
        if let Some(name) = text(0..100).strip_suffix(".jpg") {
            all.push((name.to_owned(), KINDS[at + BLOCK..][..size].to_vec()));
        }
        at += BLOCK + size.next_multiple_of(BLOCK);
    }
    all
}

/// An archive of a sample `x` whose image has these bytes.
fn archive(jpeg: &[u8]) -> Vec<u8> {
    let mut archive = Vec::new();
    for (name, data) in [("x.jpg", jpeg), ("x.cls", b"7")] {
        let mut header = [0; BLOCK];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[124..135].copy_from_slice(format!("{:011o}", data.len()).as_bytes());
        header[148..156].fill(b' ');
        header[257..265].copy_from_slice(b"ustar\x0000");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        archive.extend(header);
        archive.extend(data);
        archive.resize(archive.len().next_multiple_of(BLOCK), 0);
    }
    archive.resize(archive.len() + 2 * BLOCK, 0);
    archive
}

/// The array of an image, or the error.
fn array(setup: &Setup, jpeg: &[u8]) -> Result<Vec<u8>, String> {
    let outcome = decode_whole::<Jpeg>(setup, &archive(jpeg));
    match &outcome.errors[..] {
        [] => Ok(field(&outcome.records[0], 1).to_vec()),
        [(0, _, message)] => Err(message.clone()),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn refuses(jpeg: &[u8], message: &str) {
    let found = array(&sized("8"), jpeg).expect_err("an error");
    assert!(found.starts_with("sample `x`: image: "), "{found}");
    assert!(found.contains(message), "expected {message:?}, found {found:?}");
}

/// The JPEG of `kinds.tar` with this name.
fn kind(name: &str) -> Vec<u8> {
    jpegs().into_iter().find(|(found, _)| found == name).expect(name).1
}

/// The position of the first marker of this kind.
fn marker(jpeg: &[u8], marker: u8) -> usize {
    jpeg.windows(2).position(|pair| pair == [0xff, marker]).expect("the marker")
}

/// The arrays equal Pillow's, except for rounding.
#[track_caller]
fn assert_like(record: &Record, expected: &[u8]) {
    assert_eq!(field(record, 1).len(), expected.len());
    let differences = field(record, 1).iter().zip(expected).map(|(a, b)| a.abs_diff(*b));
    let largest = differences.max();
    assert!(largest <= Some(3), "{}: a difference of {largest:?}", key(record));
}

#[test]
fn arrays_are_those_of_pillow() {
    let records = records(&sized("16"), KINDS);
    assert_eq!(records.len(), 18);
    for (number, record) in records.iter().enumerate() {
        assert_like(record, &PILLOWS[number * 16 * 16 * 3..][..16 * 16 * 3]);
        assert_eq!(field(record, 2), (number as i64).to_le_bytes());
    }
}

/// The library decodes progressive images and those of four colours, and does not support `draft`.
#[test]
fn drafts_are_those_of_pillow() {
    let mut expected = PILLOWS_DRAFTS;
    for size in [14, 7, 3] {
        let options = [("size", &*size.to_string()), ("key", "true"), ("draft", "true")];
        for record in records(&Setup::new(&options), KINDS) {
            let array;
            (array, expected) = expected.split_at(size * size * 3);
            if !key(&record).starts_with("progressive") && key(&record) != "cmyk" {
                assert_like(&record, array);
            }
        }
    }
    assert_eq!(expected, b"");
}

/// `make test` compares the same file with the records in the sandbox.
#[test]
fn arrays_are_those_of_the_sandbox() {
    let records = records(&sized("8"), KINDS);
    assert_eq!(records.len(), EXPECTED.lines().count());
    for (record, line) in records.iter().zip(EXPECTED.lines()) {
        let (pixels, _) = field(record, 1).as_chunks::<3>();
        let rows: Vec<_> = pixels.chunks(8).collect();
        let text = format!("{:?}:{rows:?}", "image").replace(", ", ",");
        assert!(line.contains(&text), "{}: found {text}, expected {line}", key(record));
    }
}

#[test]
fn every_split_gives_the_same_records() {
    for size in [1000, 3333, 20_000] {
        let pieces = vec![size; KINDS.len() / size];
        let outcome = assert_any_split::<Jpeg>(&sized("9"), KINDS, &pieces);
        assert_eq!((outcome.records.len(), outcome.errors), (18, vec![]));
    }
}

/// A call makes at most 64 MiB of arrays.
#[test]
fn a_chunk_of_many_images_takes_several_calls() {
    let first = decode_once::<Jpeg>(&sized("1024"), KINDS).expect("no error");
    assert!(first.more && first.consumed < KINDS.len() / 2, "{first:?}");
    let whole = decode_once::<Jpeg>(&sized("8"), KINDS).expect("no error");
    assert!(!whole.more, "{whole:?}");
    assert_eq!(records(&sized("1024"), KINDS).len(), 18);
}

#[test]
fn an_image_of_one_color_keeps_it_in_every_size() {
    let color = array(&sized("1"), &kind("pixel")).expect("an array");
    for size in [2, 7, 8, 224, 333] {
        let array = array(&sized(&size.to_string()), &kind("pixel")).expect("an array");
        assert_eq!(array, color.repeat(size * size));
    }
}

/// The end of an image may be missing, but none of its blocks.
#[test]
fn an_image_that_was_cut_off_is_an_error_or_the_same() {
    let setup = sized("4");
    for (name, jpeg) in jpegs() {
        let whole = array(&setup, &jpeg).expect(&name);
        for length in 0..jpeg.len() {
            match array(&setup, &jpeg[..length]) {
                Err(message) => assert!(message.contains("expected"), "{name}: {message}"),
                Ok(array) => {
                    assert!(length + 3 > jpeg.len() && array == whole, "{name}, {length} bytes");
                }
            }
        }
    }
}

#[test]
fn damaged_bytes_do_no_harm() {
    let setup = sized("4");
    let mut random = 1_u32;
    for (name, jpeg) in jpegs() {
        let mut errors = 0;
        for _ in 0..300 {
            let mut jpeg = jpeg.clone();
            for _ in 0..2 {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let at = random as usize % jpeg.len();
                jpeg[at] = (random >> 24) as u8;
            }
            errors += usize::from(array(&setup, &jpeg).is_err());
        }
        assert!(errors > 0, "{name}");
    }
}

#[test]
fn what_is_not_a_jpeg_is_refused() {
    refuses(b"", "expected a JPEG, which begins with [ff, d8], found no bytes");
    refuses(b"\x89PNG\r\n", "found [89, 50, 4e, 47]");
    refuses(b"\xff\xd8\xff\xd9", "expected a scan, found the end of the image (ff d9) at byte 2");
    refuses(b"\xff\xd8\xff", "ends inside of its header, after 3 bytes");
}

#[test]
fn kinds_that_nobody_decodes_are_refused() {
    let changed = |at: usize, value: u8| {
        let mut jpeg = kind("420");
        let frame = marker(&jpeg, 0xc0);
        jpeg[frame + at] = value;
        jpeg
    };
    refuses(&changed(1, 0xc9), "found one with arithmetic coding (ff c9)");
    refuses(&changed(1, 0xc3), "found a lossless one (ff c3)");
    refuses(&changed(1, 0xc5), "found a hierarchical one (ff c5)");
    refuses(&changed(4, 12), "expected 8 bits a sample, found 12");
    refuses(&changed(6, 0), "expected an image with pixels, found 40 x 0");
    refuses(
        &changed(12, 3),
        "expected a quantization table (ff db) for the component 1, found none",
    );
    // 65,308 columns and 65,308 rows.
    let mut huge = changed(5, 255);
    let frame = marker(&huge, 0xc0);
    huge[frame + 7] = 255;
    refuses(
        &huge,
        "an image of 65320 x 65308 in 3 components has more than max_pixels (33554432 in 3 components); raise",
    );
}

#[test]
fn damaged_scans_are_refused() {
    let mut jpeg = kind("420");
    let scan = marker(&jpeg, 0xda);
    let size = jpeg.len();
    refuses(&jpeg[..size - 40], "expected a whole JPEG, but it ends after ");
    jpeg.splice(size - 40.., [0xff, 0xd9]);
    refuses(&jpeg, "found the marker ff d9 after ");
    // A code never consists of ones only.
    jpeg[scan + 14..scan + 20].copy_from_slice(&[0xff, 0, 0xff, 0, 0xff, 0]);
    refuses(&jpeg, "the JPEG is damaged");
    let mut jpeg = kind("restarts");
    let second = marker(&jpeg, 0xd1);
    jpeg[second + 1] = 0xd4;
    let place = format!("expected the restart marker ff d1 at byte {second}, found ff d4");
    refuses(&jpeg, &place);
}

/// A bad image in the middle, and one before the end of the archive.
#[test]
fn bad_images_can_be_skipped() {
    let mut archive = KINDS.to_vec();
    let starts: Vec<_> =
        (0..KINDS.len()).filter(|at| KINDS[*at..].starts_with(b"\xff\xd8")).collect();
    for (bad, left) in [(1, 17), (17, 16)] {
        archive[starts[bad]] = 0;
        let setup = sized("4").skipping();
        let outcome = assert_any_split::<Jpeg>(&setup, &archive, &[30_000, 15_000, 5000, 100]);
        assert_eq!((outcome.records.len(), outcome.errors.len()), (left, 18 - left));
        assert!(outcome.errors[0].2.starts_with("sample `422`: image: "), "{:?}", outcome.errors);
    }
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let refused = |options: &[(&str, &str)]| open::<Jpeg>(&Setup::new(options)).err();
    assert_eq!(refused(&[("size", "0")]).as_deref(), Some("option `size` takes 1 to 2048, not 0"));
    assert!(refused(&[("size", "2049")]).is_some());
    let message = refused(&[("fields", "jpg,cls:int64")]).expect("an error");
    assert!(message.contains("\"image=jpg;jpeg,cls:int64\"; it names jpg, cls"), "{message}");
    assert_eq!(refused(&[("fields", "image=png;jpg"), ("size", "2048")]), None);
}

/// Without `key`, a record has only numbers, all of one size.
#[test]
fn images_may_be_absent_if_the_option_says_so() {
    let fields = [("size", "4"), ("fields", "image=png?,cls:int64")];
    let records = records(&Setup::new(&fields), KINDS);
    assert_eq!(records[3], [None, Some(3_i64.to_le_bytes().to_vec())]);
    let message = "expected a member `png`, found only: jpg, cls";
    let missing = decode_whole::<Jpeg>(&Setup::new(&[("fields", "image=png")]), KINDS);
    assert!(missing.errors[0].2.contains(message), "{:?}", missing.errors);
}
