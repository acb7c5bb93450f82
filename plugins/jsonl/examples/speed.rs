//! Speed of the decoder by itself, natively:
//! `cargo run --release -p pipemill-jsonl --example jsonl-speed`

use std::hint::black_box;
use std::time::{Duration, Instant};

use pipemill_jsonl::Jsonl;
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
    let options = Options::new(&Jsonl::options(), &given).expect("known options");
    let info = StreamInfo {
        channel: "speed".into(),
        epoch: 0,
        object: "memory".into(),
        max_record: 64 << 20,
    };
    let mut decoder = Jsonl::open(&options, &info).expect("opens");
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

/// 4 MiB or so of lines of some 200 bytes, as a text data set has them.
fn documents() -> Vec<u8> {
    let mut text = Vec::new();
    for id in 0u64.. {
        let score = (id * 7919 % 10_000) as f64 / 10_000.0;
        let word =
            ["lorem ipsum dolor sit", "consectetur adipiscing", "sed do eiusmod"][id as usize % 3];
        let line = format!(
            "{{\"id\": {id}, \"text\": \"{word} amet, {word} tempor incididunt ut labore et dolore\", \
             \"score\": {score}, \"meta\": {{\"source\": \"crawl-{}\", \"lang\": \"en\", \"ok\": true}}}}\n",
            id % 40
        );
        text.extend_from_slice(line.as_bytes());
        if text.len() > 4 << 20 {
            break;
        }
    }
    text
}

/// 4 MiB or so of embeddings of 128 numbers.
fn embeddings() -> Vec<u8> {
    let mut text = Vec::new();
    let mut state = 1u32;
    while text.len() < 4 << 20 {
        let mut number = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f64::from(state >> 8) / f64::from(1 << 23) - 1.0
        };
        let numbers: Vec<_> = (0..128).map(|_| format!("{:.7}", number())).collect();
        text.extend_from_slice(format!("{{\"vec\": [{}]}}\n", numbers.join(", ")).as_bytes());
    }
    text
}

fn main() {
    let text = documents();
    println!("lines of {} bytes", text.len() / text.iter().filter(|byte| **byte == b'\n').count());
    time("line, not looked at", &[("validate", "false")], &text);
    time("line, validated", &[], &text);
    time("three fields", &[("fields", "/id:int64,/text:utf8,/score:float32")], &text);
    time("one field of an inner object", &[("fields", "/meta/lang:utf8")], &text);
    let text = embeddings();
    time("arrays of 128 float32", &[("fields", "/vec:float32[128]")], &text);
}
