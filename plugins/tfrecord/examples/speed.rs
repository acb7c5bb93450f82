//! Speed of the decoder by itself, natively, checksums included:
//! `cargo run --release -p pipemill-tfrecord --example tfrecord-speed`

use pipemill_plugin::testing::print_speed_with;
use pipemill_tfrecord::TfRecord;

fn masked(bytes: &[u8]) -> [u8; 4] {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

/// A chunk of 4 MiB or so of records of one size.
fn chunk(size: usize) -> Vec<u8> {
    let payload: Vec<u8> = (0..size).map(|i| (i * 31) as u8).collect();
    let length = (size as u64).to_le_bytes();
    let record = [&length[..], &masked(&length), &payload, &masked(&payload)].concat();
    record.repeat((4 << 20) / record.len())
}

fn main() {
    for verify in ["true", "false"] {
        for size in [100, 1 << 10, 100 << 10] {
            let what = format!("verify {verify:<5}  records of {size:>6} bytes");
            let options = [("verify", verify)];
            print_speed_with::<TfRecord>(&what, &options, &chunk(size), crc32c::crc32c);
        }
    }
}
