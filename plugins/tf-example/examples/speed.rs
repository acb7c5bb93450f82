//! Speed of the decoder by itself, natively, checksums included:
//! `cargo run --release -p pipemill-tf-example --example tf-example-speed`

use std::hint::black_box;
use std::time::{Duration, Instant};

use pipemill_plugin::{Decoder, Host, Level, Options, Records, StreamInfo};
use pipemill_tf_example::TfExample;

/// Sums the lengths of what it is given; computes checksums of the file at the speed of the hardware.
struct Sum {
    file: &'static [u8],
    bytes: u64,
}

impl Host for Sum {
    fn emit(&mut self, spans: &[u64], _: &[u8], _: &[u32]) {
        self.bytes += spans.iter().map(|span| span & 0xffff_ffff).sum::<u64>();
        black_box(self.bytes);
    }
    fn check_crc32c(&mut self, spans: &[u64], expected: &[u32]) -> Option<usize> {
        let crc = |span: &u64| {
            let from = (span >> 32) as usize;
            crc32c::crc32c(&self.file[from..from + (span & 0xffff_ffff) as usize])
        };
        spans.iter().zip(expected).position(|(span, expected)| crc(span) != *expected)
    }
    fn log(&mut self, _: Level, _: &str) {}
}

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
fn chunk(entries: &[Vec<u8>]) -> &'static [u8] {
    let payload = field(1, &entries.concat());
    let length = (payload.len() as u64).to_le_bytes();
    let record = [&length[..], &masked(&length), &payload, &masked(&payload)].concat();
    record.repeat((4 << 20) / record.len() + 1).leak()
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
        let file = chunk(&entries);
        let given = [("features".to_owned(), features.to_owned())];
        let options = Options::new(&TfExample::options(), &given).expect("known options");
        let info = StreamInfo {
            channel: "speed".into(),
            epoch: 0,
            object: "memory".into(),
            max_record: 64 << 20,
        };
        let mut decoder = TfExample::open(&options, &info).expect("opens");
        let mut out = Records::new(Box::new(Sum { file, bytes: 0 }), false);
        out.set_schema(&decoder.schema().expect("told by the options"));
        let (start, mut calls) = (Instant::now(), 0);
        while start.elapsed() < Duration::from_secs(1) {
            let progress = decoder.decode(black_box(file), true, &mut out);
            assert_eq!(progress.expect("good records").consumed, file.len());
            out.flush();
            calls += 1;
        }
        let speed = calls as f64 * file.len() as f64 / start.elapsed().as_secs_f64() / 1e9;
        println!("{name:<16}  {speed:7.2} GB/s");
    }
}
