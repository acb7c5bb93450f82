//! Speed of the decoder by itself, natively:
//! `cargo run --release -p pipemill-recordio --example recordio-speed`

use pipemill_plugin::testing::print_speed;
use pipemill_recordio::RecordIo;

/// Appends one part of `length` bytes.
fn part(file: &mut Vec<u8>, cflag: u32, length: usize) {
    file.extend_from_slice(&0xced7_230a_u32.to_le_bytes());
    file.extend_from_slice(&(cflag << 29 | length as u32).to_le_bytes());
    file.resize(file.len() + length.next_multiple_of(4), b'.');
}

/// A chunk of 4 MiB or so of records of one size, whole or in two parts.
fn chunk(size: usize, parts: usize) -> Vec<u8> {
    let mut file = Vec::new();
    while file.len() < 4 << 20 {
        if parts == 1 {
            part(&mut file, 0, size);
        } else {
            part(&mut file, 1, size / 8 * 4);
            part(&mut file, 3, size - size / 8 * 4);
        }
    }
    file
}

fn main() {
    for parts in [1, 2] {
        for size in [100, 1 << 10, 100 << 10] {
            let what = format!("parts {parts}  records of {size:>6} bytes");
            print_speed::<RecordIo>(&what, &[], &chunk(size, parts));
        }
    }
}
