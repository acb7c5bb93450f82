//! Speed of the decoder by itself, natively:
//! `cargo run --release -p pipemill-length-prefixed --example length-prefixed-speed`

use pipemill_length_prefixed::LengthPrefixed;
use pipemill_plugin::testing::print_speed;

/// 4 MiB or so of records of one size, each behind what `prefix` makes of it.
fn chunk(size: usize, prefix: fn(usize) -> Vec<u8>) -> Vec<u8> {
    let record = [prefix(size), vec![b'.'; size]].concat();
    record.repeat((4 << 20) / record.len())
}

fn varint(size: usize) -> Vec<u8> {
    match size {
        ..0x80 => vec![size as u8],
        _ => [&[size as u8 | 0x80][..], &varint(size >> 7)].concat(),
    }
}

fn main() {
    for size in [30, 100, 1 << 10, 100 << 10] {
        let chunk_of = chunk(size, |size| (size as u32).to_le_bytes().to_vec());
        print_speed::<LengthPrefixed>(
            &format!("u32le, records of {size} bytes"),
            &[("prefix", "u32le")],
            &chunk_of,
        );
        let chunk_of = chunk(size, varint);
        print_speed::<LengthPrefixed>(
            &format!("varint, records of {size} bytes"),
            &[("prefix", "varint")],
            &chunk_of,
        );
    }
}
