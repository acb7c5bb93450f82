//! Prints the speed of the decoder outside the sandbox:
//! `cargo run --release -p pipemill-length-prefixed --example length-prefixed-speed`

use pipemill_length_prefixed::LengthPrefixed;
use pipemill_parsing::testing::varints;
use pipemill_plugin::testing::print_speed;

/// About 4 MiB of records of one size, each after the length that `prefix` writes.
fn chunk(size: usize, prefix: fn(usize) -> Vec<u8>) -> Vec<u8> {
    let record = [prefix(size), vec![b'.'; size]].concat();
    record.repeat((4 << 20) / record.len())
}

fn main() {
    for size in [30, 100, 1 << 10, 100 << 10] {
        let chunk_of = chunk(size, |size| (size as u32).to_le_bytes().to_vec());
        print_speed::<LengthPrefixed>(
            &format!("u32le, records of {size} bytes"),
            &[("prefix", "u32le")],
            &chunk_of,
        );
        let chunk_of = chunk(size, |size| varints([size as u64]));
        print_speed::<LengthPrefixed>(
            &format!("varint, records of {size} bytes"),
            &[("prefix", "varint")],
            &chunk_of,
        );
    }
}
