//! Speed of the decoder by itself, natively, checksums included:
//! `cargo run --release -p pipemill-tf-example --example tf-example-speed`

use pipemill_plugin::testing::print_speed_with;
use pipemill_tf_example::TfExample;

fn varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push(value as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}

fn field(number: u64, value: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    varint(&mut message, number << 3 | 2);
    varint(&mut message, value.len() as u64);
    message.extend_from_slice(value);
    message
}

/// An entry of the map of features: a list of this kind.
fn entry(key: &str, kind: u64, list: &[u8]) -> Vec<u8> {
    field(1, &[field(1, key.as_bytes()), field(2, &field(kind, &field(1, list)))].concat())
}

fn masked(bytes: &[u8]) -> [u8; 4] {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

/// A chunk of 4 MiB or so of one example again and again.
fn chunk(entries: &[Vec<u8>]) -> Vec<u8> {
    let payload = field(1, &entries.concat());
    let length = (payload.len() as u64).to_le_bytes();
    let record = [&length[..], &masked(&length), &payload, &masked(&payload)].concat();
    record.repeat((4 << 20) / record.len() + 1)
}

fn main() {
    let ids = |count: u64| {
        let mut list = Vec::new();
        (0..count).for_each(|n| varint(&mut list, n * n % 30_000));
        entry("ids", 3, &list)
    };
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
        print_speed_with::<TfExample>(name, &options, &chunk(&entries), crc32c::crc32c);
    }
}
