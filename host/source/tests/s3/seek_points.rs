//! Compressed objects that begin at a seek point: their bytes are those of the whole object from
//! there on, nothing before the point is read, and a point of another object is an error.

use std::sync::Arc;

use fastrand::Rng;
use pipemill_s3_test::proxy::Plan;
use pipemill_s3_test::servers::S3Server;
use pipemill_source::s3::{Access, Objects, Settings};
use pipemill_source::{
    Compression, Files, Input, Object, Paths, Pattern, ReadOutcome, ReadSettings, SeekPoint,
    SeekPoints, Source, SourceEvent, Start, Stop,
};
use pipemill_testing::bucket::Bucket;
use pipemill_testing::inputs::{gzip, zlib, zstd};
use pipemill_testing::test_dir::TestDir;
use pipemill_testing::{PATIENCE, skip_test};

use crate::reading::{objects, s3};
use crate::starts::gets;

/// Content that compresses to about a third, of which no piece is as another one.
fn content(random: &mut Rng, size: usize) -> Vec<u8> {
    (0..size).map(|_| b'a' + random.u8(..6)).collect()
}

/// An object of several members, streams or frames, and its content.
fn object(random: &mut Rng, kind: Compression) -> (Vec<u8>, Vec<u8>) {
    let mut contents = Vec::new();
    for _ in 0..3 {
        let size = *random.choice(&[0, 5, 90_000, 400_000]).expect("there are some");
        contents.push(content(random, size));
    }
    contents.push(content(random, 150_000));
    let write = match kind {
        Compression::Gzip => gzip,
        Compression::Zlib => zlib,
        _ => zstd,
    };
    (contents.iter().flat_map(|it| write(it)).collect(), contents.concat())
}

const KINDS: [(Compression, &str); 3] =
    [(Compression::Gzip, "gz"), (Compression::Zlib, "zz"), (Compression::Zstd, "zst")];

fn stop() -> Stop {
    Stop::new().expect("there are descriptors")
}

fn file(path: &std::path::Path) -> Files {
    Files::new(Pattern::File(path.into()), ReadSettings::default(), 0, stop())
}

fn first(source: &mut dyn Source) -> Object {
    match source.next() {
        Ok(SourceEvent::Object(object)) => object,
        Ok(_) => panic!("it has no object"),
        Err(error) => panic!("{}", error.in_full()),
    }
}

/// Reads to the end, or to the error.
fn read(input: &mut dyn Input, size: usize) -> Result<Vec<u8>, (Vec<u8>, String)> {
    let (mut bytes, mut buffer) = (Vec::new(), vec![0; size]);
    loop {
        match input.read(&mut buffer, Some(PATIENCE)) {
            Ok(ReadOutcome::Bytes(count)) => bytes.extend_from_slice(&buffer[..count]),
            Ok(ReadOutcome::End) => return Ok(bytes),
            Ok(other) => panic!("{other:?} at byte {}", bytes.len()),
            Err(error) => return Err((bytes, error.in_full())),
        }
    }
}

/// Reads an object to its end. Returns its points.
fn points(mut object: Object, content: &[u8]) -> SeekPoints {
    let points = SeekPoints::every(0, 1 << 20);
    object.input.set_seek_points(&points);
    let bytes = read(&mut *object.input, 10_007);
    assert!(bytes.as_deref() == Ok(content), "{:?}", bytes.err());
    assert!(points.is_inflated());
    points
}

fn start(offset: u64) -> Start {
    Start { offset, ..Start::default() }
}

/// Offsets, and the points to read them from: none, and the last one before each.
fn places(
    random: &mut Rng,
    points: &SeekPoints,
    size: usize,
) -> Vec<(u64, Option<Arc<SeekPoint>>)> {
    let all = points.all();
    assert!(!all.is_empty());
    let mut places: Vec<_> =
        all.iter().map(|point| (point.inflated(), Some(point.clone()))).collect();
    for _ in 0..6 {
        let offset = random.u64(..=size as u64);
        places.push((offset, points.before(offset)));
        // One that is further away, or after it.
        places.push((offset, Some(random.choice(&all).expect("there are some").clone())));
    }
    places
}

#[test]
fn what_is_not_inflated_is_known() {
    let folder = TestDir::new();
    folder.write("a.csv", b"1,2\n");
    let mut object = first(&mut file(&folder.path("a.csv")));
    let points = SeekPoints::every(0, 1 << 20);
    object.input.set_seek_points(&points);
    assert!(read(&mut *object.input, 10).is_ok() && !points.is_inflated());
}

#[test]
fn files_from_any_point_give_the_rest() {
    for seed in 0..12 {
        let mut random = Rng::with_seed(seed);
        let (kind, ending) = *random.choice(&KINDS).expect("there are some");
        let (bytes, content) = object(&mut random, kind);
        let folder = TestDir::new();
        folder.write(&format!("a.{ending}"), &bytes);
        let path = folder.path(&format!("a.{ending}"));
        let points = points(first(&mut file(&path)), &content);
        let mut whole = first(&mut file(&path));
        assert!(whole.input.at(0).is_none(), "no points are known");
        whole.input.set_seek_points(&points);
        for (offset, point) in places(&mut random, &points, content.len()) {
            let mut source = file(&path);
            source.start_from(point);
            source.start_at(start(offset)).expect("it has that epoch");
            let rest = &content[offset as usize..];
            let mut begun = first(&mut source).input;
            assert!(read(&mut *begun, 10_007).as_deref() == Ok(rest), "seed {seed}, {offset}");
            if let Some(point) = points.before(offset) {
                // Nothing before the point is read.
                let mut hollow = bytes.clone();
                hollow[..point.compressed() as usize].fill(0xff);
                folder.write(&format!("b.{ending}"), hollow);
                let path = folder.path(&format!("b.{ending}"));
                let (reading, access) = (ReadSettings::default(), Access::default());
                let named = Paths::new(vec![path.clone().into()], reading, access, stop());
                for mut source in [Box::new(file(&path)) as Box<dyn Source>, Box::new(named)] {
                    source.start_from(Some(point.clone()));
                    source.start_at(start(offset)).expect("it has that epoch");
                    let begun = read(&mut *first(&mut *source).input, 10_007);
                    assert!(begun.as_deref() == Ok(rest), "seed {seed}, {offset}");
                }
            }
            let mut concurrent = whole.input.at(offset).expect("points are known").expect("opens");
            assert!(read(&mut *concurrent, 10_007).as_deref() == Ok(rest), "seed {seed}, {offset}");
        }
    }
}

/// Writes files with each kind of block, flush and window that zlib knows, as gzip and as zlib.
const WRITE_WITH_PYTHON: &str = r#"
import random, sys, zlib
folder, content = sys.argv[1], open(sys.argv[1] + "/content", "rb").read()
generator, number = random.Random(7), 0
for window in (9, 12, 15):
    for memory in (1, 8, 9):
        for strategy in (zlib.Z_DEFAULT_STRATEGY, zlib.Z_FILTERED, zlib.Z_HUFFMAN_ONLY,
                         zlib.Z_RLE, zlib.Z_FIXED):
            for ending, kind in (("gz", 16), ("zz", 0)):
                level = generator.choice([0, 1, 6, 9])
                to = zlib.compressobj(level, zlib.DEFLATED, window + kind, memory, strategy)
                parts, at = [], 0
                while at < len(content):
                    size = generator.choice([1, 100, 5_000, 60_000, 200_000])
                    parts.append(to.compress(content[at : at + size]))
                    parts.append(to.flush(generator.choice([0, 1, 2, 3, 5])))
                    at += size
                open(f"{folder}/{number}.{ending}", "wb").write(b"".join(parts) + to.flush())
                number += 1
"#;

#[test]
fn each_kind_of_block_that_zlib_writes_can_be_begun() {
    let name = "each_kind_of_block_that_zlib_writes_can_be_begun";
    let Some(python) = std::env::var_os("PIPEMILL_PYTHON") else {
        return skip_test(name, "PIPEMILL_PYTHON, a Python");
    };
    let mut random = Rng::with_seed(1);
    // Random bytes are stored, zeros and text are not.
    let text = content(&mut random, 100_000);
    let stored: Vec<u8> = (0..70_000).map(|_| random.u8(..)).collect();
    let content = [&text[..], &[0; 90_000], &stored, &text].concat();
    let folder = TestDir::new();
    folder.write("content", &content);
    let mut writer = std::process::Command::new(python);
    let status = writer.args(["-c", WRITE_WITH_PYTHON]).arg(folder.folder()).status();
    assert!(status.expect("Python starts").success());
    for number in 0..90 {
        let ending = ["gz", "zz"][number % 2];
        let path = folder.path(&format!("{number}.{ending}"));
        let points = points(first(&mut file(&path)), &content);
        let mut whole = first(&mut file(&path)).input;
        whole.set_seek_points(&points);
        for point in points.all() {
            let from = point.inflated();
            let mut input = whole.at(from).expect("points are known").expect("it opens");
            let bytes = read(&mut *input, 10_007);
            assert!(bytes.as_deref() == Ok(&content[from as usize..]), "{number}, byte {from}");
        }
    }
}

#[test]
fn objects_in_s3_from_any_point_give_the_rest_and_nothing_before_is_requested() {
    for (number, (kind, ending)) in KINDS.into_iter().enumerate() {
        // The name says how it is compressed, the settings do, or the point alone.
        for (key, compression) in [
            (format!("a.{ending}"), Compression::Auto),
            ("plain".to_owned(), kind),
            ("plain".to_owned(), Compression::Auto),
        ] {
            let mut random = Rng::with_seed(number as u64);
            let (bytes, content) = object(&mut random, kind);
            let bucket = Bucket::with([(&key, &bytes)]);
            let settings = |endpoint: &str, compression| {
                let mut settings = objects(endpoint, &[&key]);
                settings.reading.compression = compression;
                settings
            };
            let source = |settings: Settings| Objects::new(s3(), settings, start(0), stop());
            let whole = settings(&bucket.server.endpoint(), kind);
            let points = points(first(&mut source(whole)), &content);
            for (offset, point) in places(&mut random, &points, content.len()).into_iter().take(9) {
                let proxy = bucket.proxy(Plan::default());
                let settings = settings(&proxy.endpoint(), compression);
                let used = point.clone().filter(|point| point.inflated() <= offset);
                if used.is_none() && key == "plain" && compression == Compression::Auto {
                    // Nothing says that it is compressed.
                    continue;
                }
                let mut source =
                    Objects::from_seek_point(s3(), settings, (start(offset), point), stop());
                let mut input = first(&mut source).input;
                let rest = &content[offset as usize..];
                let bytes = read(&mut *input, 10_007);
                assert!(bytes.as_deref() == Ok(rest), "{key} {offset}: {:?}", bytes.err());
                let least = used.map_or(0, |point| point.compressed());
                let gets = gets(&proxy.log());
                assert_eq!(gets.iter().map(|(_, byte)| *byte).min(), Some(least), "{gets:?}");
            }
        }
    }
}

#[test]
fn a_point_of_another_object_is_an_error_before_the_first_byte() {
    let mut random = Rng::with_seed(7);
    for (kind, ending) in KINDS {
        let (bytes, content) = object(&mut random, kind);
        let (other, _) = object(&mut random, kind);
        let folder = TestDir::new();
        let name = |name: &str| format!("{name}.{ending}");
        let path = folder.path(&name("a"));
        folder.write(&name("a"), &bytes);
        let points = points(first(&mut file(&path)), &content);
        folder.write(&name("other"), &other);
        folder.write(&name("short"), &bytes[..1000]);
        folder.write("a.txt", &content);
        let bucket =
            Bucket::with([(name("other"), other), (name("short"), bytes[..1000].to_vec())]);
        for point in points.all() {
            let begin = |mut source: Box<dyn Source>| {
                source.start_from(Some(point.clone()));
                source.start_at(start(point.inflated())).expect("it has that epoch");
                read(&mut *first(&mut *source).input, 10_007)
            };
            let remedy = "the seek point is of another object, or of another state of this one: \
                          make its index again, or read it from its start";
            let place = format!(
                "can't be inflated from compressed byte {} (inflated byte {}): ",
                point.compressed(),
                point.inflated()
            );
            let in_s3 = |key: &str| {
                let settings = objects(&bucket.server.endpoint(), &[&name(key)]);
                Box::new(Objects::new(s3(), settings, start(0), stop()))
            };
            let file = |key: &str| Box::new(file(&folder.path(key)));
            for source in [file(&name("other")) as Box<dyn Source>, in_s3("other")] {
                let (bytes, error) = begin(source).expect_err("it is another object");
                assert!(bytes.is_empty(), "{error}");
                let is_short = error.contains("was to be read from byte");
                let is_wrong = error.contains(&place) && error.ends_with(remedy);
                assert!(is_wrong || is_short, "{error}");
            }
            for source in [file(&name("short")) as Box<dyn Source>, in_s3("short")] {
                let (bytes, error) = begin(source).expect_err("it is cut short");
                assert!(bytes.is_empty() && error.contains("but it ends at byte 1000"), "{error}");
            }
            let (bytes, error) = begin(file("a.txt")).expect_err("it is not compressed");
            assert!(bytes.is_empty() && !error.is_empty(), "{error}");
        }
    }
}
