//! Speed of the decoder by itself, natively:
//! `cargo run --release -p pipemill-fixed --example fixed-speed`

use std::hint::black_box;
use std::time::{Duration, Instant};

use pipemill_fixed::Fixed;
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

/// Decodes the chunk again and again for a second, and prints the speed.
fn time(what: &str, options: &[(&str, &str)], chunk: &[u8]) {
    let given: Vec<_> = options.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let options = Options::new(&Fixed::options(), &given).expect("known options");
    let info = StreamInfo {
        channel: "speed".into(),
        epoch: 0,
        object: "memory".into(),
        max_record: 64 << 20,
    };
    let mut decoder = Fixed::open(&options, &info).expect("opens");
    let mut out = Records::new(Box::new(Sum(0)), false);
    out.set_fields(decoder.schema().expect("known at open").len());
    let (start, mut calls) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_secs(1) {
        let progress = decoder.decode(black_box(chunk), true, &mut out);
        assert_eq!(progress.expect("sound records").consumed, chunk.len());
        out.flush();
        calls += 1;
    }
    let speed = calls as f64 * chunk.len() as f64 / start.elapsed().as_secs_f64() / 1e9;
    println!("{what:<44}  {speed:7.2} GB/s");
}

fn main() {
    for size in [16, 100, 1 << 10, 100 << 10] {
        let chunk = vec![7; (4 << 20) / size * size];
        time(&format!("records of {size} bytes"), &[("size", &size.to_string())], &chunk);
    }
    let chunk = vec![7; 788 * 5_000];
    let fields = "label:int32,image:bytes[784]";
    time("a label and an image of 784 bytes", &[("fields", fields)], &chunk);
}
