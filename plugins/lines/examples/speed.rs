//! Speed of the decoder by itself, natively:
//! `cargo run --release -p pipemill-lines --example lines-speed`

use std::hint::black_box;
use std::time::{Duration, Instant};

use pipemill_lines::Lines;
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

/// 4 MiB or so of lines whose lengths spread around `mean`, as those of text do.
fn chunk(mean: usize) -> Vec<u8> {
    let mut text = Vec::new();
    let mut state = 1u32;
    while text.len() < 4 << 20 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let length = mean / 2 + (state >> 8) as usize % (mean + 1);
        text.resize(text.len() + length, b'a');
        text.push(b'\n');
    }
    text
}

fn main() {
    for utf8 in ["false", "true"] {
        for mean in [10, 30, 100, 1 << 10, 100 << 10] {
            let text = chunk(mean);
            let given = [("utf8".to_owned(), utf8.to_owned())];
            let options = Options::new(&Lines::options(), &given).expect("known options");
            let info = StreamInfo {
                channel: "speed".into(),
                epoch: 0,
                object: "memory".into(),
                max_record: 64 << 20,
            };
            let mut decoder = Lines::open(&options, &info).expect("opens");
            let mut out = Records::new(Box::new(Sum(0)), false);
            out.set_fields(1);
            let (start, mut calls) = (Instant::now(), 0);
            while start.elapsed() < Duration::from_secs(1) {
                let progress = decoder.decode(black_box(&text), true, &mut out);
                assert_eq!(progress.expect("good lines").consumed, text.len());
                out.flush();
                calls += 1;
            }
            let speed = calls as f64 * text.len() as f64 / start.elapsed().as_secs_f64() / 1e9;
            println!("utf8 {utf8:<5}  lines of {mean:>6} bytes  {speed:7.2} GB/s");
        }
    }
}
