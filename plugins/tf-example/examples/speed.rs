//! Prints the speed of the decoder outside the sandbox, with checksums:
//! `cargo run --release -p pipemill-tf-example --example tf-example-speed`. With features and a file
//! after `--`, that of this file, to compare it with `pipemill plugin bench --data`.

use pipemill_parsing::testing::{protobuf_field as field, tfrecord_file, varints};
use pipemill_plugin::testing::print_speed_with;
use pipemill_tf_example::TfExample;

/// An entry of the map `feature`. `kind` is the field number of its list.
fn entry(key: &str, kind: u64, list: &[u8]) -> Vec<u8> {
    field(1, &[field(1, key.as_bytes()), field(2, &field(kind, &field(1, list)))].concat())
}

/// A chunk of about 4 MiB that repeats one example.
fn chunk(entries: &[Vec<u8>]) -> Vec<u8> {
    let record = tfrecord_file(&[field(1, &entries.concat())]);
    record.repeat((4 << 20) / record.len() + 1)
}

fn main() {
    let given: Vec<_> = std::env::args().skip(1).collect();
    if let [features, file] = &given[..] {
        let (options, data) = ([("features", features.as_str())], std::fs::read(file));
        let data = data.unwrap_or_else(|error| panic!("{file}: {error}"));
        return print_speed_with::<TfExample>(file, &options, &data, crc_fast::crc32_iscsi);
    }
    let ids = |count: u64| entry("ids", 3, &varints((0..count).map(|n| n * n % 30_000)));
    let columns = |count| (0..count).map(|n| entry(&format!("column {n}"), 2, &[0; 4])).collect();
    let wanted: Vec<_> = (0..40).map(|n| format!("column {n}:float32")).collect();
    let image = vec![entry("image", 1, &[7; 50_000]), entry("label", 3, b"\x07")];
    let cases: [(&str, Vec<Vec<u8>>, &str); 4] = [
        ("image and label", image, "image:bytes,label:int64"),
        ("784 floats", vec![entry("x", 2, &[0; 784 * 4])], "x:float32[784]"),
        ("512 ids", vec![ids(512)], "ids:int64[]"),
        ("40 columns", columns(40), &wanted.join(",")),
    ];
    for (name, entries, features) in cases {
        let options = [("features", features)];
        print_speed_with::<TfExample>(name, &options, &chunk(&entries), crc_fast::crc32_iscsi);
    }
}
