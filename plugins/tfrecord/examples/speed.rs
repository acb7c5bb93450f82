//! Prints the speed of the decoder outside the sandbox, with checksums:
//! `cargo run --release -p pipemill-tfrecord --example tfrecord-speed`

use pipemill_parsing::testing::tfrecord_file;
use pipemill_plugin::testing::print_speed_with;
use pipemill_tfrecord::TfRecord;

/// A chunk of about 4 MiB with records of one size.
fn chunk(size: usize) -> Vec<u8> {
    let payload: Vec<u8> = (0..size).map(|i| (i * 31) as u8).collect();
    let record = tfrecord_file(&[payload]);
    record.repeat((4 << 20) / record.len())
}

fn main() {
    for verify in ["true", "false"] {
        for size in [100, 1 << 10, 100 << 10] {
            let what = format!("verify {verify:<5}  records of {size:>6} bytes");
            let options = [("verify", verify)];
            print_speed_with::<TfRecord>(&what, &options, &chunk(size), crc_fast::crc32_iscsi);
        }
    }
}
