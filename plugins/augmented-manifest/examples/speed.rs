//! Speed of the decoder by itself, natively:
//! `cargo run --release -p pipemill-augmented-manifest --example augmented-manifest-speed`

use std::hint::black_box;
use std::time::{Duration, Instant};

use pipemill_augmented_manifest::AugmentedManifest;
use pipemill_plugin::{Decoder, Host, Level, Options, Records, StreamInfo};

/// Sums the lengths of what it is given.
struct Sum(u64);

impl Host for Sum {
    fn emit(&mut self, spans: &[u64], _: &[u8], _: &[u32]) {
        self.0 += spans.iter().map(|span| span & 0xffff_ffff).sum::<u64>();
        black_box(self.0);
    }
    fn check_crc32c(&mut self, _: &[u64], _: &[u32]) -> Option<usize> {
        None
    }
    fn log(&mut self, _: Level, _: &str) {}
}

/// A chunk of 4 MiB or so of groups: an object of one size, and two short texts.
fn chunk(size: usize) -> Vec<u8> {
    let mut file = Vec::new();
    while file.len() < 4 << 20 {
        for length in [size, 1, 30] {
            file.extend_from_slice(&0xced7_230a_u32.to_le_bytes());
            file.extend_from_slice(&(length as u32).to_le_bytes());
            file.resize(file.len() + length.next_multiple_of(4), b'.');
        }
    }
    file
}

fn main() {
    for size in [100, 1 << 10, 100 << 10] {
        let file = chunk(size);
        let given = [("attributes".to_owned(), "image-ref,label,box".to_owned())];
        let options = Options::new(&AugmentedManifest::options(), &given).expect("known options");
        let info = StreamInfo {
            channel: "speed".into(),
            epoch: 0,
            object: "memory".into(),
            max_record: 64 << 20,
        };
        let mut decoder = AugmentedManifest::open(&options, &info).expect("opens");
        let mut out = Records::new(Box::new(Sum(0)), false);
        out.set_fields(3);
        let (start, mut calls) = (Instant::now(), 0);
        while start.elapsed() < Duration::from_secs(1) {
            let progress = decoder.decode(black_box(&file), true, &mut out);
            assert_eq!(progress.expect("good records").consumed, file.len());
            out.flush();
            calls += 1;
        }
        let speed = calls as f64 * file.len() as f64 / start.elapsed().as_secs_f64() / 1e9;
        println!("objects of {size:>6} bytes  {speed:7.2} GB/s");
    }
}
