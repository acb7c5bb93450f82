//! Prints the speed of the decoder outside the sandbox:
//! `cargo run --release -p pipemill-recordio-protobuf --example recordio-protobuf-speed`
//!
//! With the name of a file as argument, it measures with that file.

use pipemill_parsing::testing::{protobuf_field as field, varints, write_recordio_part};
use pipemill_plugin::testing::print_speed;
use pipemill_recordio_protobuf::RecordIoProtobuf;

/// The tensors of the features.
#[derive(Debug, Clone, Copy)]
enum TensorKind {
    Float32,
    Float64,
    Int32,
    Sparse,
}

/// An entry of `features` (1) or `label` (2), as SageMaker's writer makes it.
fn entry(map: u64, case: u64, tensor: &[u8]) -> Vec<u8> {
    field(map, &[field(1, b"values"), field(2, &field(case, tensor))].concat())
}

/// A chunk of about 4 MiB with records of `size` numbers and a label of float32.
fn chunk(kind: TensorKind, size: u64) -> Vec<u8> {
    let keys = || field(2, &varints((0..size).map(|n| n * 20)));
    let features = match kind {
        TensorKind::Float32 => entry(1, 2, &field(1, &vec![1; size as usize * 4])),
        TensorKind::Float64 => entry(1, 3, &field(1, &vec![1; size as usize * 8])),
        TensorKind::Int32 => entry(1, 7, &field(1, &varints((0..size).map(|n| n * n % 1000)))),
        TensorKind::Sparse => {
            let shape = field(3, &varints([size * 20]));
            entry(1, 2, &[field(1, &vec![1; size as usize * 4]), keys(), shape].concat())
        }
    };
    let record = [features, entry(2, 2, &field(1, &[0; 4]))].concat();
    let mut file = Vec::new();
    while file.len() < 4 << 20 {
        write_recordio_part(&mut file, 0, &record);
    }
    file
}

fn main() {
    if let Some(path) = std::env::args_os().nth(1) {
        let file = std::fs::read(&path).expect("a file that can be read");
        print_speed::<RecordIoProtobuf>(&path.to_string_lossy(), &[], &file);
        return;
    }
    for kind in [TensorKind::Float32, TensorKind::Float64, TensorKind::Int32, TensorKind::Sparse] {
        for size in [10, 100, 784, 150_528] {
            let what = format!("{:<8} {size:>6} numbers", format!("{kind:?}"));
            print_speed::<RecordIoProtobuf>(&what, &[], &chunk(kind, size));
        }
    }
}
