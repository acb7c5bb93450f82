//! `pipemill cat` on sound input: each decoder, each output, each kind of source.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStringExt;
use std::process::{Command, Stdio};
use std::thread;

use pipemill_tests::inputs::{base64, recordio, tfrecord, unbase64};
use pipemill_tests::nasty::clean;
use pipemill_tests::pipemill;
use pipemill_tests::process::finish;
use pipemill_tests::test_dir::TestDir;
use serde_json::{Value, json};

use super::{command, run, run_with};

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON object a line")).collect()
}

const PAYLOADS: [&[u8]; 3] = [b"one", b"", b"\xff three"];

/// Each decoder with a file, and the records that come from it.
fn samples() -> [(&'static str, Vec<u8>, Vec<Value>, &'static str); 4] {
    let data = |index: usize, offset: u64| {
        json!({"object": "in", "index": index, "offset": offset,
               "fields": {"data": {"base64": base64(PAYLOADS[index])}}})
    };
    let line = |index: u64, offset: u64, text: &str| {
        json!({"object": "in", "index": index, "offset": offset,
               "fields": {"line": text}})
    };
    let row = |index: u64, offset: u64, a: &str, b: &str| {
        json!({"object": "in", "index": index, "offset": offset,
               "fields": {"f0": a, "f1": b}})
    };
    [
        (
            "tfrecord",
            tfrecord(&PAYLOADS),
            vec![data(0, 0), data(1, 19), data(2, 35)],
            "records=3 bytes=10\n",
        ),
        (
            "recordio",
            recordio(&PAYLOADS),
            vec![data(0, 0), data(1, 12), data(2, 20)],
            "records=3 bytes=10\n",
        ),
        (
            "lines",
            b"one\r\n\nthree".to_vec(),
            vec![line(0, 0, "one"), line(1, 5, ""), line(2, 6, "three")],
            "records=3 bytes=8\n",
        ),
        (
            "csv",
            b"1,x\n2,\"y\"\"z\"\n".to_vec(),
            vec![row(0, 0, "1", "x"), row(1, 4, "2", "y\"z")],
            "records=2 bytes=6\n",
        ),
    ]
}

#[test]
fn every_decoder_in_every_output() {
    for (decoder, bytes, expected, count) in samples() {
        let place = TestDir::new();
        place.write("in", bytes);
        let jsonl = run(&place, &["cat", "--decoder", decoder, "in"]).with_code(0);
        assert_eq!(objects(&jsonl.text()), expected, "{decoder}");
        let counted = run(&place, &["cat", "-d", decoder, "--output", "count", "in"]).with_code(0);
        assert_eq!(counted.text(), count, "{decoder}");
        let raw = run(&place, &["cat", "-d", decoder, "--output", "raw", "in"]).with_code(0);
        let fields =
            expected.iter().flat_map(|one| one["fields"].as_object().expect("an object").values());
        let all: Vec<u8> = fields.flat_map(bytes_of).collect();
        assert_eq!(raw.stdout, all, "{decoder}");
    }
}

/// The bytes of a field of text or bytes.
fn bytes_of(field: &Value) -> Vec<u8> {
    match field.as_str() {
        Some(text) => text.into(),
        None => unbase64(field["base64"].as_str().expect("text")),
    }
}

#[test]
fn numbers_text_and_absent_fields_are_json_of_their_own_kind() {
    let place = TestDir::new();
    place.write("in.csv", "id,x,name\n1,0.5,é\n-2,,\"a \"\"b\"\"\"\n3,nan,\n");
    let ended = run(
        &place,
        &[
            "cat",
            "-d",
            "csv",
            "-o",
            "header=true",
            "-o",
            "types=id:int64,x:float32,name:utf8",
            "in.csv",
        ],
    )
    .with_code(0);
    let fields: Vec<_> = objects(&ended.text()).iter().map(|one| one["fields"].clone()).collect();
    assert_eq!(
        fields,
        [
            json!({"id": 1, "x": 0.5, "name": "é"}),
            json!({"id": -2, "x": null, "name": "a \"b\""}),
            json!({"id": 3, "x": "NaN", "name": ""}),
        ]
    );
    place.write("dense.csv", "1,2,3\n4,5,6.5\n");
    let args = ["cat", "-d", "csv", "-o", "emit=dense", "-o", "label=f0", "dense.csv"];
    let fields: Vec<_> = objects(&run(&place, &args).with_code(0).text())
        .iter()
        .map(|one| one["fields"].clone())
        .collect();
    let expected = [json!({"y": 1.0, "x": [2.0, 3.0]}), json!({"y": 4.0, "x": [5.0, 6.5]})];
    assert_eq!(fields, expected);
}

#[test]
fn files_folders_and_standard_input_in_the_order_given() {
    let place = TestDir::new();
    place.write("data/b.txt", "b");
    place.write("data/a.txt", "a1\na2");
    place.write("data/deep/c.txt", "c");
    place.write("z.txt", "z");
    let ended = run_with(&place, &["cat", "-d", "lines", "z.txt", "data", "-"], b"from stdin\n")
        .with_code(0);
    let seen: Vec<_> = objects(&ended.text())
        .iter()
        .map(|one| {
            format!("{} {} {}", one["object"].as_str().expect("text"), one["index"], one["offset"])
        })
        .collect();
    assert_eq!(
        seen,
        [
            "z.txt 0 0",
            "data/a.txt 0 0",
            "data/a.txt 1 3",
            "data/b.txt 0 0",
            "data/deep/c.txt 0 0",
            "- 0 0"
        ]
    );
}

#[test]
fn a_fifo_is_read_to_its_writers_end() {
    let place = TestDir::new();
    let fifo = place.fifo("pipe");
    let writer = thread::spawn(move || std::fs::write(fifo, tfrecord(&PAYLOADS)));
    let ended = run(&place, &["cat", "-d", "tfrecord", "--output", "count", "pipe"]).with_code(0);
    assert_eq!(ended.text(), "records=3 bytes=10\n");
    writer.join().expect("no panic").expect("it is read");
}

#[test]
fn what_came_is_printed_while_the_writer_is_silent() {
    let mut child = Command::new(pipemill!())
        .args(["cat", "-d", "lines", "--output", "raw", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it can be started");
    let mut input = child.stdin.take().expect("it is piped");
    let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
    for word in ["one;", "two;"] {
        writeln!(input, "{word}").expect("it is read");
        let mut said = Vec::new();
        output.read_until(b';', &mut said).expect("it is text");
        assert_eq!(said, word.as_bytes());
    }
    drop(input);
    assert!(child.wait().expect("our own child").success());
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let place = TestDir::new();
    place.write("much.txt", b"a line of text\n".repeat(300_000));
    let script = "\"$0\" cat -d lines much.txt | head -n 2; echo ${PIPESTATUS[0]}";
    let mut shell = Command::new("bash");
    shell.args(["-c", script]).arg(pipemill!()).current_dir(place.folder());
    let ended = pipemill_tests::process::finish(&mut shell).with_code(0);
    let text = ended.text();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!((lines.len(), lines[2]), (3, "0"), "{ended:?}");
    assert_eq!(ended.stderr, "");
}

/// A record has a limited number of fields, with limited names; a tensor has neither.
#[test]
fn a_table_of_very_many_columns_is_read_or_refused_with_the_remedy() {
    let place = TestDir::new();
    for (columns, name, limit) in [
        (38_000, "c", None),
        (45_000, "c", Some(" bytes as the fields of a record, which may take 4194304; ")),
        (
            20_000,
            "a name that is longer than people write names and makes the schema large by itself \
             and not by the number of its fields ",
            Some(" bytes as the fields of a record"),
        ),
        (100_000, "c", Some(" are more fields than a record may have, 65536; ")),
    ] {
        let names: Vec<_> = (0..columns).map(|column| format!("{name}{column}")).collect();
        let row = vec!["1"; columns].join(",");
        place.write("wide.csv", format!("{}\n{row}\n{row}\n", names.join(",")));
        let count = |more: &[&str]| {
            let args = ["cat", "-d", "csv", "-o", "header=true", "--output", "count", "wide.csv"];
            run(&place, &[&args, more].concat())
        };
        let bytes = 2 * columns;
        match limit {
            None => {
                assert_eq!(count(&[]).with_code(0).text(), format!("records=2 bytes={bytes}\n"))
            }
            Some(limit) => {
                let remedy = "choose some by `columns`, or set `emit` to dense or row";
                let ended = count(&[]).with_code(64).says(&[limit, remedy]);
                assert!(!ended.stderr.contains("broke its contract"), "{ended:#?}");
            }
        }
        let dense = count(&["-o", "emit=dense"]).with_code(0);
        assert_eq!(dense.text(), format!("records=2 bytes={}\n", 4 * bytes));
        let some = count(&["-o", "columns=0,7,19999"]).with_code(0);
        assert_eq!(some.text(), "records=2 bytes=6\n");
    }
}

/// Bytes that are not text are shown as U+FFFD, and the file is opened by its true bytes.
#[test]
fn names_that_are_not_utf8_are_listed_and_opened() {
    let place = TestDir::new();
    let name = OsString::from_vec(b"data/raw\x9b31m\xff.txt".to_vec());
    place.make_folder("data/deep\u{e9}");
    std::fs::write(place.folder().join(&name), "one\n").expect("any bytes are a name");
    let folder = OsString::from_vec(b"data/\xfe".to_vec());
    std::fs::create_dir(place.folder().join(&folder)).expect("any bytes are a name");
    std::fs::write(place.folder().join(&folder).join("two.txt"), "two\n").expect("it is there");
    let shown = ["data/raw\u{fffd}31m\u{fffd}.txt", "data/\u{fffd}/two.txt"];
    let with = |args: &[&str], source: &OsStr| {
        let mut command = command(&place, args);
        clean(finish(command.arg(source))).with_code(0)
    };
    let cat = |source: &OsStr| -> Vec<_> {
        let seen = objects(&with(&["cat", "-d", "lines"], source).text());
        seen.iter().map(|one| one["object"].as_str().expect("text").to_owned()).collect()
    };
    let ls = |source: &OsStr| -> Vec<_> {
        let lines = with(&["ls"], source).text();
        lines.lines().map(|line| line.split('\t').nth(1).expect("a name").to_owned()).collect()
    };
    assert_eq!((cat(&name), ls(&name)), (vec![shown[0].to_owned()], vec![shown[0].to_owned()]));
    assert_eq!((cat(&folder), ls(&folder)), (vec![shown[1].to_owned()], vec![shown[1].to_owned()]));
    assert_eq!(cat("data".as_ref()), ls("data".as_ref()));
    assert_eq!(ls("data".as_ref()).len(), 2);
    // Without a decoder, its start is looked at; and the size is known.
    assert!(with(&["schema"], &name).text().contains("records  1, in 4 B"));
    // The same from configurations, and by patterns.
    for source in ["folder = 'data'", "glob = 'data/raw?31m?.txt'", "glob = 'data/**/*.txt'"] {
        let config =
            format!("[[channel]]\nname = 'a'\ndecoder = 'lines'\nsource = {{ {source} }}\n");
        let file = place.write("c.toml", config);
        let listed = with(&["ls", "--channel", "a", "-c"], file.as_os_str()).text();
        assert!(listed.contains("31m\u{fffd}.txt\n"), "{source}: {listed}");
        with(&["config", "check", "--try"], file.as_os_str());
    }
    // A missing one, and what has no other form than text.
    let missing = OsString::from_vec(b"no\xff".to_vec());
    let refused = |args: &[&str], source: &OsStr, code: i32, says: &[&str]| {
        clean(finish(command(&place, args).arg(source))).with_code(code).says(says);
    };
    refused(
        &["cat", "-d", "lines"],
        &missing,
        66,
        &["no\u{fffd}", "can't open it", "check the path"],
    );
    refused(&["ls"], &missing, 66, &["no\u{fffd}", "check the path"]);
    refused(&["init"], &name, 64, &[shown[0], "its path is not UTF-8", "rename it"]);
    let address = OsString::from_vec(b"s3://bucket/\xff".to_vec());
    for action in ["cat", "ls", "schema", "init"] {
        let says = ["`s3://bucket/\u{fffd}` is no address in S3: expected UTF-8"];
        refused(&[action], &address, 64, if action == "init" { &["UTF-8"] } else { &says });
    }
}
