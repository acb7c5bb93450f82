//! Speed of the decoder by itself, natively:
//! `cargo run --release -p pipemill-webdataset --example webdataset-speed`

use std::hint::black_box;
use std::time::{Duration, Instant};

use pipemill_plugin::{Decoder, Host, Level, Options, Records, StreamInfo};
use pipemill_webdataset::WebDataset;

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
    let options = Options::new(&WebDataset::options(), &given).expect("known options");
    let info = StreamInfo {
        channel: "speed".into(),
        epoch: 0,
        object: "memory".into(),
        max_record: 64 << 20,
    };
    let mut decoder = WebDataset::open(&options, &info).expect("opens");
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

/// 8 MiB or so of samples of two members of this size.
fn archive(size: usize) -> Vec<u8> {
    let mut file = Vec::new();
    for number in 0.. {
        for extension in ["jpg", "cls"] {
            let mut header = [0; 512];
            let name = format!("train/{number:08}.{extension}");
            header[..name.len()].copy_from_slice(name.as_bytes());
            header[124..135].copy_from_slice(format!("{size:011o}").as_bytes());
            header[148..156].fill(b' ');
            header[156] = b'0';
            header[257..265].copy_from_slice(b"ustar\x0000");
            let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
            header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
            file.extend_from_slice(&header);
            file.resize(file.len() + size.next_multiple_of(512), b'.');
        }
        if file.len() > 8 << 20 {
            break;
        }
    }
    file.resize(file.len() + 1024, 0);
    file
}

fn main() {
    for size in [100, 1 << 10, 10 << 10, 100 << 10] {
        let file = archive(size);
        time(&format!("members of {size} bytes"), &[("fields", "jpg,cls")], &file);
    }
}
