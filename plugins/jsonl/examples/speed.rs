//! Prints the speed of the decoder outside the sandbox:
//! `cargo run --release -p pipemill-jsonl --example jsonl-speed`

use pipemill_jsonl::Jsonl;
use pipemill_plugin::testing::print_speed;

/// About 4 MiB of lines of about 200 bytes, as in a data set of texts.
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

/// About 4 MiB of embeddings of 128 numbers.
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
    print_speed::<Jsonl>("line, not checked", &[("validate", "false")], &text);
    print_speed::<Jsonl>("line, validated", &[], &text);
    print_speed::<Jsonl>(
        "three fields",
        &[("fields", "/id:int64,/text:utf8,/score:float32")],
        &text,
    );
    print_speed::<Jsonl>("one field of an inner object", &[("fields", "/meta/lang:utf8")], &text);
    let text = embeddings();
    print_speed::<Jsonl>("arrays of 128 float32", &[("fields", "/vec:float32[128]")], &text);
}
