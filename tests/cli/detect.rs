//! `cat` and channels that name no decoder.

use pipemill_tests::host::Host;
use pipemill_tests::inputs::{gzip, recordio, tfrecord};
use pipemill_tests::pipemill;
use pipemill_tests::process::finish;
use pipemill_tests::test_dir::TestDir;
use serde_json::json;

use super::{command, fields, run, run_with};

#[test]
fn the_decoder_is_found_and_said() {
    let place = TestDir::new();
    let table = "id,price\n1,2.5\n-2,3\n";
    let rows = vec![json!({"id": 1, "price": 2.5}), json!({"id": -2, "price": 3.0})];
    place.write("a.csv", table);
    place.write("b.csv.gz", gzip(table.as_bytes()));
    place.write("c.tsv", table.replace(',', "\t"));
    place.write("d.csv", table.replace(',', ";"));
    place.write("E.CSV.GZ", gzip(table.as_bytes()));
    place.write("f.csv.gzip", gzip(table.as_bytes()));
    for file in ["a.csv", "b.csv.gz", "c.tsv", "d.csv", "E.CSV.GZ", "f.csv.gzip"] {
        let ended = run(&place, &["cat", file]).with_code(0);
        assert_eq!(fields(&ended.text()), rows, "{file}");
        ended.says(&[format!("{file}: decoder csv with ").as_str(), "its name ends in ."]);
    }
    place.write("in.tfrecords", tfrecord(&[b"one"]));
    place.write("in.rec", recordio(&[b"one"]));
    place.write("unnamed", tfrecord(&[b"one"]));
    for file in ["in.tfrecords", "in.rec", "unnamed"] {
        let raw = run(&place, &["cat", "--output", "raw", file]).with_code(0);
        assert_eq!(raw.stdout, b"one", "{file}");
    }
    place.write("in.txt", "one\r\ntwo");
    let ended = run(&place, &["cat", "in.txt"]).with_code(0);
    assert_eq!(fields(&ended.text()), [json!({"line": "one"}), json!({"line": "two"})]);
    // All bytes of a pipe are decoded, though its first ones were looked at.
    let long = format!("a,b,c\n{}", "1,2,3\n".repeat(50_000));
    let ended = run_with(&place, &["cat", "-"], long.as_bytes()).with_code(0);
    assert_eq!(ended.text().lines().count(), 50_000);
    // Options of the command line win.
    let args = ["cat", "-o", "header=false", "-o", "types=utf8", "a.csv"];
    let ended = run(&place, &args).with_code(0);
    assert_eq!(fields(&ended.text())[0], json!({"f0": "id", "f1": "price"}));
}

/// The types that the first object shows are those of all objects.
#[test]
fn the_first_object_tells_the_types_of_all() {
    let place = TestDir::new();
    place.write("in/a.csv", "id,x\n1,0.5\n");
    // Alone, this object would have an integer.
    place.write("in/b.csv", "id,x\n2,1\n");
    let ended = run(&place, &["cat", "in"]).with_code(0);
    assert_eq!(fields(&ended.text()), [json!({"id": 1, "x": 0.5}), json!({"id": 2, "x": 1.0})]);
    place.write("in/c.csv", "id,x\n3,new\n");
    let ended = run(&place, &["cat", "in"]).with_code(65);
    ended.says(&["in/c.csv", "expected float64, found \"new\"", "auto,x:utf8"]);
    place.write("in/c.csv", "3,1\n");
    run(&place, &["cat", "in"]).with_code(64).says(&["in/c.csv", "expected a header"]);
}

#[test]
fn a_consumer_reads_a_channel_without_decoder() {
    let place = TestDir::new();
    place.write("in/a.csv", "id,x\n1,0.5\n");
    place.write("in/b.csv.gz", gzip(b"id,x\n-2,1\n"));
    let source = place.path("in");
    let config = format!("[[channel]]\nname = 'train'\nsource = {{ folder = {source:?} }}\n");
    let host = Host::start(&pipemill!(), &place, &config);
    let numbers = [1_i64, -2].map(|number| number.to_le_bytes().to_vec());
    assert_eq!(host.read("train").well(), numbers);
    host.wait().with_code(0).says(&["channel `train`: ", "in/a.csv: decoder csv with "]);
}

#[test]
fn a_channel_needs_no_decoder() {
    let place = TestDir::new();
    place.write("in/a.csv", "id,x\n1,0.5\n");
    let channel = "[[channel]]\nname = 'train'\nsource = { folder = 'in' }\n";
    place.write("p.toml", channel);
    let ended = run(&place, &["config", "check", "p.toml"]).with_code(0);
    assert!(ended.text().contains("train: its decoder is found when its source is read"));
    let ended = run(&place, &["config", "check", "--try", "p.toml"]).with_code(0);
    assert!(ended.text().contains("{\"id\":1,\"x\":0.5}"), "{ended:#?}");
    ended.says(&["channel `train`: in/a.csv: decoder csv"]);
    place.write("in/b.csv", [0; 100]);
    place.write("in/0.csv", "\u{1}");
    let ended = run(&place, &["run", "--config", "p.toml", "--", "true"]).with_code(64);
    ended.says(&["channel `train`: in/0.csv: its name ends in .csv", "no text"]);
    place.write("fifo.toml", "[[channel]]\nname = 'train'\nsource = { fifo = '/data' }\n");
    let ended = run(&place, &["config", "check", "fifo.toml"]).with_code(64);
    ended.says(&["channel `train`: decoder: missing"]);
}

#[test]
fn a_plugin_of_the_lock_file_says_which_objects_are_its_own() {
    let place = TestDir::new();
    std::fs::copy(pipemill_tests::BAD_PLUGIN, place.path("x.wasm")).expect("it can be copied");
    place.write("good.deed", b"\xa0\xde\xed and more");
    run(&place, &["plugin", "add", "x.wasm", "--name", "deeds"]).with_code(0);
    run(&place, &["cat", "good.deed", "--output", "count"])
        .says(&["good.deed: decoder deeds: the plugin says so"]);
    // Of two plugins with a name, that of the lock file is meant: the other one is not asked.
    place.make_folder("plugins");
    place.write("plugins/deeds.wasm", "never read");
    let mut command = command(&place, &["cat", "good.deed", "--output", "count"]);
    let ended = finish(command.env("PIPEMILL_PLUGIN_PATH", place.folder().join("plugins")));
    ended.says(&["decoder deeds: the plugin says so"]);
    // Without its file it can't be asked, and nobody knows the object.
    std::fs::remove_dir_all(place.folder().join("pipemill.plugins")).expect("it was there");
    run(&place, &["cat", "good.deed"])
        .with_code(65)
        .says(&["it is not asked which objects it reads", "its decoder is not known"]);
}

#[test]
fn a_plugin_says_which_objects_are_its_own() {
    let place = TestDir::new();
    place.make_folder("plugins");
    let plugin = place.folder().join("plugins/deeds.wasm");
    std::fs::copy(pipemill_tests::BAD_PLUGIN, plugin).expect("it can be copied");
    let cat = |file: &str| {
        let mut command = command(&place, &["cat", "--output", "count", file]);
        pipemill_tests::process::finish(
            command.env("PIPEMILL_PLUGIN_PATH", place.folder().join("plugins")),
        )
    };
    place.write("good.deed", b"\xa0\xde\xed and more");
    let ended = cat("good.deed");
    ended.says(&["good.deed: decoder deeds: the plugin says so"]);
    place.write("other.deed", "something else, and more");
    cat("other.deed")
        .with_code(65)
        .says(&["which the plugin `deeds` reads", "but its first bytes"]);
    place.write("good.csv", b"\xa0\xde\xed and more");
    cat("good.csv").with_code(65).says(&["several decoders fit", "`deeds` or `csv`"]);
    // Without the plugin on the search path, the bytes are unknown.
    run(&place, &["cat", "good.deed"]).with_code(65).says(&["its decoder is not known"]);
    let ended = run(&place, &["plugin", "inspect", "plugins/deeds.wasm"]).with_code(0);
    assert!(!ended.text().contains("detect."), "{ended:#?}");
}
