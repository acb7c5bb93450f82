//! Tests that detection is right or refuses: files of all formats under right and wrong names,
//! random bytes, and any split of the first bytes.

use std::collections::VecDeque;
use std::io::Write as _;
use std::time::Duration;

use pipemill_decode::{Engine, Plugin};
use pipemill_source::{
    Files, Input, Object, Pattern, ReadOutcome, ReadSettings, SeekPoints, Source, SourceError,
    SourceEvent, Start, Stop, is_planned_name,
};
use pipemill_types::{ObjectFacts, ObjectIdentity};
use proptest::collection::vec;
use proptest::prelude::*;

use super::bytes::{Sniffed, sniff};
use super::choice::choose;
use super::dialect::Dialect;
use super::source::{DetectError, detect, expecting};

/// Files of the decoders' own tests and a few that are made here, each with its decoder.
fn files() -> Vec<(&'static str, Vec<u8>)> {
    macro_rules! fixture {
        ($path:literal) => {
            include_bytes!(concat!("../../../plugins/", $path)).to_vec()
        };
    }
    vec![
        ("avro", fixture!("avro/tests/fixtures/apache-null.avro")),
        ("avro", fixture!("avro/tests/fixtures/fastavro-snappy.avro")),
        ("npy", fixture!("npy/tests/fixtures/matrix.npy")),
        ("npy", fixture!("npy/tests/fixtures/version-3.npy")),
        ("msgpack", fixture!("msgpack/tests/fixtures/rows.msgpack")),
        ("csv", fixture!("csv/tests/fixtures/pandas-all.csv")),
        ("csv", fixture!("csv/tests/fixtures/arrow-needed.csv")),
        ("csv", b"a,b,c\n1,2,3\n4,5,6\n".to_vec()),
        ("csv", b"a;b;c\r\n1;2,5;3\r\n4;5;6\r\n".to_vec()),
        ("csv", b"a\tb\tc\n1\t2\t3\n4\t5\t6\n".to_vec()),
        ("csv", b"a,b,c\r\n1,2,3\r\n4,5,6\r\n\x1a".to_vec()),
        ("csv", b"a,b,c\r1,2,3\r4,5,6\r".to_vec()),
        ("jsonl", b"{\"a\":1,\"b\":2}\n{\"a\":3,\"b\":4}\n".to_vec()),
        (
            "lines",
            b"To be, or not to be\nthat is the question:\nwhether, in the mind, it is\n".to_vec(),
        ),
        ("tfrecord", tfrecord(b"payload")),
        ("recordio", recordio(&[b"one", b"three"])),
        ("webdataset", tar("a.txt", b"text")),
        ("npz", npz()),
        ("array-record", fixture!("array-record/tests/fixtures/zstd.riegeli")),
        ("mds", fixture!("mds/tests/fixtures/values.mds")),
        ("mds", fixture!("mds/tests/fixtures/objects.mds")),
        ("arrow", b"ARROW1\0\0\xff\xff\xff\xff\x80\0\0\0\x10\0\0\0".to_vec()),
        ("arrow", b"\xff\xff\xff\xff\x80\0\0\0\x10\0\0\0\0\0\x0a\0".to_vec()),
        ("parquet", b"PAR1\x15\x04\x15\x10\x15\x14\x4c\x15\x02PAR1".to_vec()),
    ]
}

fn tfrecord(payload: &[u8]) -> Vec<u8> {
    let masked = |bytes: &[u8]| {
        crc_fast::crc32_iscsi(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
    };
    let length = (payload.len() as u64).to_le_bytes();
    [&length[..], &masked(&length), payload, &masked(payload)].concat()
}

fn recordio(payloads: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for payload in payloads {
        bytes.extend(0xced7_230a_u32.to_le_bytes());
        bytes.extend((payload.len() as u32).to_le_bytes());
        bytes.extend(*payload);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    bytes
}

/// An archive with one member.
fn tar(name: &str, content: &[u8]) -> Vec<u8> {
    let mut header = vec![0; 512];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[100..107].copy_from_slice(b"0000644");
    header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
    header[148..156].fill(b' ');
    header[257..263].copy_from_slice(b"ustar\0");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    header.extend(content);
    header.resize(512 * 4, 0);
    header
}

/// The start of a zip archive whose first member is an array.
fn npz() -> Vec<u8> {
    let mut bytes = b"PK\x03\x04".to_vec();
    bytes.resize(26, 0);
    bytes.extend([7, 0, 0, 0]);
    bytes.extend(b"arr.npy");
    bytes.extend(b"\x93NUMPY\x01\0");
    bytes
}

const ENDINGS: &[(&str, &str)] = &[
    (".csv", "csv"),
    (".tsv", "csv"),
    (".jsonl", "jsonl"),
    (".ndjson", "jsonl"),
    (".tfrecord", "tfrecord"),
    (".tfrecords", "tfrecord"),
    (".rec", "recordio"),
    (".recordio", "recordio"),
    (".pbr", "recordio"),
    (".tar", "webdataset"),
    (".txt", "lines"),
    (".log", "lines"),
    (".npy", "npy"),
    (".npz", "npz"),
    (".array_record", "array-record"),
    (".arrayrecord", "array-record"),
    (".riegeli", "array-record"),
    (".mds", "mds"),
    (".arrow", "arrow"),
    (".arrows", "arrow"),
    (".feather", "arrow"),
    (".ipc", "arrow"),
    (".avro", "avro"),
    (".parquet", "parquet"),
    (".parq", "parquet"),
    (".msgpack", "msgpack"),
    (".bin", ""),
    (".json", "jsonl"),
    (".dat", ""),
    ("", ""),
];

/// The decoder that is chosen for a whole object.
fn chosen(name: &str, bytes: &[u8]) -> Result<String, String> {
    let sniffed = sniff(bytes, true, &Dialect::default()).expect("it is whole");
    let choice = choose(name, &sniffed, bytes, &[]);
    choice.map(|choice| choice.decoder().to_owned()).map_err(|refusal| refusal.of(name).in_full())
}

/// Which decoders choose the bytes that they are shown is known before they are loaded, and which
/// objects are theirs before their bytes are read.
#[test]
fn the_names_and_the_table_tell_which_decoders_make_plans() {
    let engine = Engine::new(&pipemill_builtin::BUILTINS).expect("an engine");
    for builtin in &pipemill_builtin::BUILTINS {
        let plugin = Plugin::load(&engine, builtin.name, None).expect("it is built in");
        assert_eq!(builtin.plans, plugin.plans(), "{}", builtin.name);
    }
    for (ending, decoder) in ENDINGS {
        let builtin = pipemill_builtin::BUILTINS.iter().find(|one| one.name == *decoder);
        // A stream has no directory.
        let plans = builtin.is_some_and(|one| one.plans) && *ending != ".arrows";
        assert_eq!(is_planned_name(&format!("a{ending}")), plans, "{ending}");
    }
}

#[test]
fn files_under_their_own_names_are_found() {
    for (decoder, bytes) in files() {
        let own = ENDINGS.iter().filter(|(_, of)| *of == decoder).map(|(ending, _)| *ending);
        let is_tab = bytes.starts_with(b"a\tb");
        for ending in own.filter(|ending| decoder != "csv" || (*ending == ".tsv") == is_tab) {
            let found = chosen(&format!("folder.d/data{ending}"), &bytes);
            let expected = if ending == ".pbr" { "recordio-protobuf" } else { decoder };
            assert_eq!(found.as_deref(), Ok(expected), "{ending}");
        }
    }
}

/// An input that delivers its bytes in pieces of these sizes.
struct Pieces {
    bytes: Vec<u8>,
    at: usize,
    sizes: VecDeque<usize>,
}

impl Input for Pieces {
    fn read(&mut self, buf: &mut [u8], _: Option<Duration>) -> Result<ReadOutcome, SourceError> {
        let left = self.bytes.len() - self.at;
        let size = self.sizes.pop_front().unwrap_or(left).clamp(1, buf.len()).min(left);
        if left == 0 {
            return Ok(ReadOutcome::End);
        }
        buf[..size].copy_from_slice(&self.bytes[self.at..self.at + size]);
        self.at += size;
        Ok(ReadOutcome::Bytes(size))
    }
}

/// A source of these objects, in one epoch.
struct Objects(VecDeque<SourceEvent>);

impl Objects {
    fn source(objects: Vec<(&str, Vec<u8>, Vec<usize>)>) -> Box<dyn Source> {
        let event = |(name, bytes, sizes): (&str, Vec<u8>, Vec<usize>)| {
            let input = Pieces { bytes, at: 0, sizes: sizes.into() };
            SourceEvent::Object(Object {
                epoch: 0,
                ordinal: 0,
                identity: ObjectIdentity::default(),
                name: name.to_owned(),
                facts: ObjectFacts::default(),
                companions: Vec::new(),
                block: None,
                known: None,
                input: Box::new(input),
            })
        };
        let mut events: VecDeque<_> = objects.into_iter().map(event).collect();
        events.push_back(SourceEvent::EpochEnd(0));
        Box::new(Self(events))
    }
}

impl Source for Objects {
    fn next(&mut self) -> Result<SourceEvent, SourceError> {
        Ok(self.0.pop_front().unwrap_or(SourceEvent::End))
    }
    fn end_epoch(&mut self) {
        self.0.retain(|event| !matches!(event, SourceEvent::Object(_)));
    }
}

/// The decoder of these objects, and the bytes of each.
fn read(source: Box<dyn Source>) -> Result<(String, Vec<Vec<u8>>), String> {
    let (choice, mut source) =
        detect(source, Vec::new(), true, &[]).map_err(|error| match error {
            DetectError::Source(error) => error.in_full(),
            DetectError::Stopped => "stopped".to_owned(),
        })?;
    let mut all = Vec::new();
    while let SourceEvent::Object(mut object) = source.next().map_err(|error| error.in_full())? {
        let mut bytes = Vec::new();
        let mut buf = [0; 777];
        while let ReadOutcome::Bytes(count) =
            object.input.read(&mut buf, None).map_err(|error| error.in_full())?
        {
            bytes.extend(&buf[..count]);
        }
        all.push(bytes);
    }
    Ok((choice.decoder().to_owned(), all))
}

/// The names of these files do not show which of them are compressed.
#[test]
fn a_source_that_begins_in_the_middle_still_looks_at_the_first_bytes() {
    let folder = tempfile::tempdir().expect("there is room");
    let text = b"a line of text\n".repeat(5_000);
    let stored = [("a.txt", text.clone()), ("b.txt", gzip(&text)), ("c.txt", zstd(&text))];
    for (name, stored) in stored {
        std::fs::write(folder.path().join(name), stored).expect("there is room");
    }
    let stop = Stop::new().expect("there are descriptors");
    let pattern = Pattern::Folder(folder.path().into());
    let files = Files::new(pattern, ReadSettings::default(), 0, stop);
    let Ok((_, mut source)) = detect(Box::new(files), Vec::new(), true, &[]) else {
        panic!("no text")
    };
    for ordinal in 0..3 {
        for offset in [0, 1, 40_000, text.len()] {
            let start = Start { epoch: 0, ordinal, offset: offset as u64 };
            source.start_at(start).expect("it is in the list");
            let Ok(SourceEvent::Object(mut object)) = source.next() else { panic!("no object") };
            let (mut bytes, mut buf) = (Vec::<u8>::new(), [0; 777]);
            while let Ok(ReadOutcome::Bytes(count)) = object.input.read(&mut buf, None) {
                bytes.extend(&buf[..count]);
            }
            assert!(object.ordinal == ordinal && bytes == text[offset..], "{start:?}");
        }
    }
}

/// The name does not show that the file is compressed, but its seek point does.
#[test]
fn a_source_that_begins_at_a_seek_point_reads_nothing_before_it() {
    let folder = tempfile::tempdir().expect("there is room");
    let text = b"a line of text\n".repeat(5_000);
    let content = text.repeat(3);
    for stored in [gzip(&text).repeat(3), zstd(&text).repeat(3)] {
        let path = folder.path().join("a.txt");
        std::fs::write(&path, &stored).expect("there is room");
        let files = || {
            let stop = Stop::new().expect("there are descriptors");
            Files::new(Pattern::File(path.clone()), ReadSettings::default(), 0, stop)
        };
        let read = |source: &mut dyn Source, points: Option<&SeekPoints>| {
            let Ok(SourceEvent::Object(mut object)) = source.next() else { panic!("no object") };
            if let Some(points) = points {
                object.input.set_seek_points(points);
            }
            let (mut bytes, mut buf) = (Vec::<u8>::new(), [0; 777]);
            while let Ok(ReadOutcome::Bytes(count)) = object.input.read(&mut buf, None) {
                bytes.extend(&buf[..count]);
            }
            bytes
        };
        let Ok((choice, mut source)) = detect(Box::new(files()), Vec::new(), true, &[]) else {
            panic!("no text")
        };
        let points = SeekPoints::every(0, usize::MAX);
        assert!(read(&mut *source, Some(&points)) == content);
        let point = points.before(200_000).expect("a member begins at byte 150,000");
        // Whoever reads the first bytes fails.
        std::fs::write(&path, [&[0xff; 9], &stored[9..]].concat()).expect("there is room");
        let mut source = expecting(Box::new(files()), choice, Vec::new(), true, &[]);
        source.start_from(Some(point));
        source.start_at(Start { offset: 200_000, ..Start::default() }).expect("it is in the list");
        assert!(read(&mut *source, None) == content[200_000..]);
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    writer.write_all(bytes).and_then(|()| writer.finish()).expect("memory takes it")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).expect("memory takes it")
}

#[test]
fn compressed_objects_are_known_by_their_first_bytes() {
    let table = b"a,b,c\n1,2,3\n".repeat(9000);
    for stored in [gzip(&table), zstd(&table)] {
        let found = read(Objects::source(vec![("x.csv", stored.clone(), vec![3, 5])]));
        assert_eq!(found, Ok(("csv".to_owned(), vec![table.clone()])));
        // Under this name the source has inflated it, and it is still compressed.
        let twice = read(Objects::source(vec![("x.csv.gz", stored, vec![])])).unwrap_err();
        assert!(twice.contains("compressed twice"), "{twice}");
    }
}

#[test]
fn objects_that_disagree_are_refused_by_name() {
    let table = b"a,b,c\n1,2,3\n".to_vec();
    let other = b"{\"a\":1}\n".to_vec();
    let objects = vec![("a.csv", table.clone(), vec![]), ("b.jsonl", other, vec![])];
    let error = read(Objects::source(objects)).unwrap_err();
    assert!(error.starts_with("b.jsonl: it is JSON Lines, but"), "{error}");
    assert!(error.contains("a.csv"), "{error}");
    let objects = vec![("a.csv", table.clone(), vec![]), ("b.csv", table, vec![1, 1])];
    assert!(read(Objects::source(objects)).is_ok());
}

/// Spark writes an empty `_SUCCESS` next to the data.
#[test]
fn an_empty_object_does_not_choose() {
    let table = b"a,b,c\n1,2,3\n".to_vec();
    let objects = vec![("_SUCCESS", vec![], vec![]), ("part-0", table.clone(), vec![])];
    assert_eq!(read(Objects::source(objects)), Ok(("csv".to_owned(), vec![vec![], table])));
    let error = read(Objects::source(vec![("_SUCCESS", vec![], vec![])])).unwrap_err();
    assert!(error.contains("it is empty"), "{error}");
    let found = read(Objects::source(vec![("none.csv", vec![], vec![])]));
    assert_eq!(found, Ok(("csv".to_owned(), vec![vec![]])));
}

#[test]
fn what_no_decoder_reads_is_named() {
    let utf16: Vec<u8> = "a,b\n1,2\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let with_mark = [&b"\xff\xfe"[..], &utf16].concat();
    for (name, bytes, expected) in [
        ("a.csv", &b"PARE\x15\x04\x15\x10"[..], "encrypted Parquet"),
        ("train", b"PAR1pipemill\x15\x04\x15\x10", "an index of pipemill"),
        ("a.tfrecord", b"<!DOCTYPE html>\n<html><title>403</title></html>\n", "HTML"),
        ("a.csv", &utf16, "UTF-16"),
        ("a.csv", &with_mark, "UTF-16"),
        ("a.csv", b"BZh91AY&SY\x01\x02\x03", "bzip2"),
        ("a.zip", b"PK\x03\x04\x14\0\0\0\0\0", "zip"),
        ("a.json", b"[\n  {\"a\": 1},\n  {\"a\": 2}\n]\n", "JSON document"),
        ("a.bin", b"\x01\x02\x03\x04\x05", "`fixed`"),
        ("notes", b"just some words\n", "`lines` or `csv`"),
    ] {
        let error = chosen(name, bytes).expect_err(expected);
        assert!(error.contains(expected), "{name}: {error}");
    }
}

/// The options that `csv` gets for a whole object, or why it is not read.
fn table(name: &str, text: &str, given: &[(&str, &str)]) -> Result<String, String> {
    let owned = |(name, value): &(&str, &str)| (String::from(*name), String::from(*value));
    let given: Vec<_> = given.iter().map(owned).collect();
    let sniffed = sniff(text.as_bytes(), true, &Dialect::of(&given)).expect("it is whole");
    let choice = choose(name, &sniffed, text.as_bytes(), &[]);
    let choice = choice.map_err(|refusal| refusal.of(name).in_full())?;
    assert_eq!(choice.decoder(), "csv", "{text:?}");
    let options = choice.options(&given).into_iter().filter(|option| !given.contains(option));
    let options: Vec<_> = options.map(|(name, value)| format!("{name}={value}")).collect();
    Ok(options.join(" ").replace("header=auto types=auto", "auto"))
}

const SENTENCES: &str = "id\tx\n1\t\" Yes , \" he said .\n2\t\" No .\n3\tRain\n";

#[test]
fn tables_are_read_as_their_rows_and_the_options_tell() {
    for (name, text, given, expected) in [
        ("a.csv", "id,x\r1,a\r2,b\r", &[][..], "lone_cr=true auto"),
        ("a.csv", "sep=;\nid;x\n1;a\n", &[], "delimiter=; auto"),
        ("a.csv", "\"sep=\t\"\r\nid\tx\r\n1\ta\r\n", &[], "delimiter=tab auto"),
        ("a.tsv", SENTENCES, &[], "delimiter=tab quote=none auto"),
        ("a.tsv", "id\tx\n1\t\"a\" b\n2\tc\n", &[], "delimiter=tab quote=none auto"),
        ("a.tsv", "id\tx\n1\t\"a \\\"b\\\"\"\n2\tc\n", &[], "delimiter=tab auto"),
        ("a.tsv", "id\tx\n1\t\"cut", &[], "delimiter=tab auto"),
        ("a.csv", "\"Smith, John\"\n\"Doe, Jane\"\n", &[], "auto"),
        ("a.csv", "# a\nid,x\n1,2\n", &[("comment", "#")], "auto"),
        ("a.tsv", "# a\nid\tx\n1\t2\n", &[("comment", "#")], "delimiter=tab auto"),
        ("a.csv", "a report\n\nid;x\n1;2\n", &[("skip_rows", "2")], "delimiter=; auto"),
        ("a.csv", "id:x\n1:2\n", &[("delimiter", ":")], "auto"),
        ("a.csv", "'a,b',c\n1,2\n", &[("quote", "'")], "auto"),
        ("a.csv", "a\\,b,c\n1,2\n", &[("escape", "\\")], "auto"),
        ("a.csv", "a,b\n1\n1,2,3\n", &[("flexible", "true")], "auto"),
        ("a.csv", "a,b\n1,2\n\u{1a}", &[], "auto"),
    ] {
        assert_eq!(table(name, text, given).as_deref(), Ok(expected), "{text:?}");
    }
}

#[test]
fn what_is_in_the_way_of_a_table_is_named() {
    for (name, text, expected) in [
        ("a.csv", "# a\n# b\nid,x\n1,2\n", "`-o 'comment=#'`"),
        ("a.tsv", "% a\nid\tx\n1\t2\n", "`-o 'comment=%'`"),
        ("a.csv", "a report\nof two lines\nid,x\n1,2\n3,4\n", "`-o skip_rows=2`"),
        ("a.csv", "a report\n\nid;x;y\n1;2;3\n3;4;5\n", "`-o skip_rows=2`"),
        ("a.csv", "\"x\",\"y\"\n\"1\",2,3\n\"2\",3,4\n", "'names=row,x,y'"),
        ("a.csv", "id,x\n1,\"a \\\", b\"\n2,c\n", "`-o 'escape=\\'`"),
        ("a.csv", "id,x,y\n1,u,\" a\n2,b\" c,v\n3,d,w\n", "`-o quote=none`"),
        ("a.csv", "id,x\n1,2,3\n4,5\n", "the row in line 2 has 3, the first one 2"),
        ("a.csv", "id,x\n1\n4,5\n", "`-o flexible=true`"),
        ("a.csv", "id,x\n1,a\u{b}b\n", "byte 0x0b (a vertical tab) stands at offset 8, in line 2"),
        ("a.csv", "version https://git-lfs.github.com/spec/v1\noid x\n", "git lfs pull"),
        ("a.txt", "one\rtwo\rthree\r", "its lines end at CR"),
    ] {
        let found = table(name, text, &[]).expect_err(text);
        assert!(found.contains(expected), "{text:?}: {found}");
        assert_eq!(found.contains("flexible"), expected.contains("flexible"), "{found}");
    }
}

/// The only row of the first object is a header if the next object begins with it.
#[test]
fn the_next_object_tells_the_header() {
    let choice = |objects: &[&str]| {
        let objects = objects.iter().enumerate().map(|(number, text)| {
            (["0.csv", "1.csv", "2.csv"][number], text.as_bytes().to_vec(), vec![1, 2])
        });
        let source = Objects::source(objects.collect());
        let (choice, mut source) = detect(source, Vec::new(), true, &[]).ok()?;
        let mut objects = 0;
        while let Ok(SourceEvent::Object(mut object)) = source.next() {
            let mut buf = [0; 100];
            while let Ok(ReadOutcome::Bytes(_)) = object.input.read(&mut buf, None) {}
            objects += 1;
        }
        Some((choice.options(&[]), objects))
    };
    let has_header = |objects: &[&str]| {
        let (options, read) = choice(objects).expect("csv");
        assert_eq!(read, objects.len());
        let header: Vec<_> = options.iter().filter(|(name, _)| name == "header").collect();
        assert_eq!(header.len(), 1, "{options:?}");
        header[0].1 == "true"
    };
    assert!(has_header(&["id,v\n", "id,v\n1,2\n"]));
    assert!(has_header(&["id;v", "", "id;v\n1;2\n"]));
    assert!(!has_header(&["Ann,Rome\n", "Bob,Oslo\nCid,Bern\n"]));
    assert!(!has_header(&["id,v\n", "id,v\n"]));
    assert!(!has_header(&["id,v\n"]));
    assert!(!has_header(&["id,v\n1,2\n", "id,v\n1,2\n"]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Compressed or not, under any name, in any pieces: the result is the file's own decoder and
    /// its own bytes, or a refusal. A text that is named as text is lines, whatever else it may be.
    #[test]
    fn renamed_files_are_right_or_refused(
        file in 0..files().len(),
        ending in 0..ENDINGS.len(),
        packed in 0..5,
        sizes in vec(1_usize..700, 0..8),
    ) {
        let (decoder, bytes) = files().swap_remove(file);
        let (ending, _) = ENDINGS[ending];
        // The source inflates an object by its name, before it is examined.
        let (stored, suffix) = match packed {
            0 => (gzip(&bytes), ""),
            1 => (zstd(&bytes), ""),
            2 => (bytes.clone(), ".gz"),
            3 => (bytes.clone(), ".ZST"),
            _ => (bytes.clone(), ""),
        };
        let name = format!("data{ending}{suffix}");
        if let Ok((found, objects)) = read(Objects::source(vec![(&name, stored, sizes)])) {
            let expected = match ending {
                ".pbr" => "recordio-protobuf",
                _ => decoder,
            };
            prop_assert_eq!(found.as_str(), expected, "{}", &name);
            prop_assert_eq!(objects, vec![bytes]);
        }
    }

    /// Random bytes are refused under every name, unless they happen to be valid MessagePack.
    #[test]
    fn random_bytes_are_refused(bytes in vec(any::<u8>(), 64..600), ending in 0..ENDINGS.len()) {
        let (ending, _) = ENDINGS[ending];
        let any = Dialect::default();
        let is_msgpack =
            matches!(sniff(&bytes, true, &any), Some(Sniffed::Unknown { msgpack: true, .. }));
        if !(ending == ".msgpack" && is_msgpack) {
            let found = chosen(&format!("data{ending}"), &bytes);
            prop_assert!(found.is_err(), "{:?}", found);
        }
    }

    /// The classification does not depend on the number of bytes that were seen.
    #[test]
    fn more_bytes_change_nothing(
        file in 0..files().len(),
        repeat in 1_usize..300,
        cut in 0_usize..70_000,
    ) {
        let bytes = files().swap_remove(file).1.repeat(repeat);
        let cut = cut.min(bytes.len());
        let any = Dialect::default();
        if let Some(early) = sniff(&bytes[..cut], false, &any) {
            prop_assert_eq!(Some(early), sniff(&bytes, true, &any));
        }
    }

    /// Short inputs of any kind cause no panic and no wrong result.
    #[test]
    fn any_bytes_give_an_answer(bytes in vec(any::<u8>(), 0..40), name in "[a-z.]{0,8}") {
        let _ = chosen(&name, &bytes);
        let _ = sniff(&bytes, false, &Dialect::default());
    }
}
