//! Prints the speed of the decoder outside the sandbox:
//! `cargo run --release -p pipemill-lines --example lines-speed`

use pipemill_lines::Lines;
use pipemill_plugin::testing::print_speed;

/// About 4 MiB of lines whose lengths vary around `mean`, as in text.
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
            let what = format!("utf8 {utf8:<5}  lines of {mean:>6} bytes");
            print_speed::<Lines>(&what, &[("utf8", utf8)], &chunk(mean));
        }
    }
}
