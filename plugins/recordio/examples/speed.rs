//! Prints the speed of the decoder outside the sandbox:
//! `cargo run --release -p pipemill-recordio --example recordio-speed`

use pipemill_parsing::testing::write_recordio_part;
use pipemill_plugin::testing::print_speed;
use pipemill_recordio::RecordIo;

/// A chunk of about 4 MiB with records of one size, each in one part or in two.
fn chunk(size: usize, parts: usize) -> Vec<u8> {
    let (mut file, payload) = (Vec::new(), vec![b'.'; size]);
    while file.len() < 4 << 20 {
        if parts == 1 {
            write_recordio_part(&mut file, 0, &payload);
        } else {
            let (first, last) = payload.split_at(size / 8 * 4);
            write_recordio_part(&mut file, 1, first);
            write_recordio_part(&mut file, 3, last);
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
