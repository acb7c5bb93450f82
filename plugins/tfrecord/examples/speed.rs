//! Speed of the decoder by itself, natively, checksums included:
//! `cargo run --release -p pipemill-tfrecord --example tfrecord-speed`

use std::hint::black_box;
use std::time::{Duration, Instant};

use pipemill_plugin::{Decoder, Host, Level, Options, Records, StreamInfo};
use pipemill_tfrecord::TfRecord;

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

fn masked(bytes: &[u8]) -> [u8; 4] {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

/// A chunk of 4 MiB or so of records of one size.
fn chunk(size: usize) -> &'static [u8] {
    let payload: Vec<u8> = (0..size).map(|i| (i * 31) as u8).collect();
    let length = (size as u64).to_le_bytes();
    let record = [&length[..], &masked(&length), &payload, &masked(&payload)].concat();
    record.repeat((4 << 20) / record.len()).leak()
}

fn main() {
    for verify in ["true", "false"] {
        for size in [100, 1 << 10, 100 << 10] {
            let file = chunk(size);
            let given = [("verify".to_owned(), verify.to_owned())];
            let options = Options::new(&TfRecord::options(), &given).expect("known options");
            let info = StreamInfo {
                channel: "speed".into(),
                epoch: 0,
                object: "memory".into(),
                max_record: 64 << 20,
            };
            let mut decoder = TfRecord::open(&options, &info).expect("opens");
            let mut out = Records::new(Box::new(Sum { file, bytes: 0 }), false);
            out.set_fields(1);
            let (start, mut calls) = (Instant::now(), 0);
            while start.elapsed() < Duration::from_secs(1) {
                let progress = decoder.decode(black_box(file), true, &mut out);
                assert_eq!(progress.expect("good records").consumed, file.len());
                out.flush();
                calls += 1;
            }
            let speed = calls as f64 * file.len() as f64 / start.elapsed().as_secs_f64() / 1e9;
            println!("verify {verify:<5}  records of {size:>6} bytes  {speed:7.2} GB/s");
        }
    }
}
