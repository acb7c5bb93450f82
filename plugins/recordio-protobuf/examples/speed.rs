//! Speed of the decoder by itself, natively:
//! `cargo run --release -p pipemill-recordio-protobuf --example recordio-protobuf-speed`
//!
//! With the name of a file, that file's.

use pipemill_plugin::testing::print_speed;
use pipemill_recordio_protobuf::RecordIoProtobuf;

/// What the tensors of the features are.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Float32,
    Float64,
    Int32,
    Sparse,
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

fn varints(values: impl Iterator<Item = u64>) -> Vec<u8> {
    let mut message = Vec::new();
    values.for_each(|value| varint(&mut message, value));
    message
}

/// An entry of `features` (1) or `label` (2), as SageMaker's writer has it.
fn entry(map: u64, case: u64, tensor: &[u8]) -> Vec<u8> {
    field(map, &[field(1, b"values"), field(2, &field(case, tensor))].concat())
}

/// A chunk of 4 MiB or so of records with so many numbers each, and a label of float32.
fn chunk(kind: Kind, size: u64) -> Vec<u8> {
    let keys = || field(2, &varints((0..size).map(|n| n * 20)));
    let features = match kind {
        Kind::Float32 => entry(1, 2, &field(1, &vec![1; size as usize * 4])),
        Kind::Float64 => entry(1, 3, &field(1, &vec![1; size as usize * 8])),
        Kind::Int32 => entry(1, 7, &field(1, &varints((0..size).map(|n| n * n % 1000)))),
        Kind::Sparse => {
            let shape = field(3, &varints([size * 20].into_iter()));
            entry(1, 2, &[field(1, &vec![1; size as usize * 4]), keys(), shape].concat())
        }
    };
    let record = [features, entry(2, 2, &field(1, &[0; 4]))].concat();
    let mut file = Vec::new();
    while file.len() < 4 << 20 {
        file.extend_from_slice(&0xced7_230a_u32.to_le_bytes());
        file.extend_from_slice(&(record.len() as u32).to_le_bytes());
        file.extend_from_slice(&record);
        file.resize(file.len().next_multiple_of(4), 0);
    }
    file
}

fn main() {
    if let Some(path) = std::env::args_os().nth(1) {
        let file = std::fs::read(&path).expect("a file that can be read");
        print_speed::<RecordIoProtobuf>(&path.to_string_lossy(), &[], &file);
        return;
    }
    for kind in [Kind::Float32, Kind::Float64, Kind::Int32, Kind::Sparse] {
        for size in [10, 100, 784, 150_528] {
            let what = format!("{:<8} {size:>6} numbers", format!("{kind:?}"));
            print_speed::<RecordIoProtobuf>(&what, &[], &chunk(kind, size));
        }
    }
}
