//! `pipemill cat` on sound input: each decoder, each output, each kind of source.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::thread;

use pipemill_tests::inputs::{base64, recordio, tfrecord, unbase64};
use pipemill_tests::pipemill;
use pipemill_tests::test_dir::TestDir;
use serde_json::{Value, json};

use super::{run, run_with};

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON object a line")).collect()
}

const PAYLOADS: [&[u8]; 3] = [b"one", b"", b"\xff three"];

/// Each decoder with a file, and what comes of it.
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
