//! Prints the speed of the decoder outside the sandbox:
//! `cargo run --release -p pipemill-tokens --example tokens-speed`

use pipemill_plugin::testing::print_speed;
use pipemill_tokens::Tokens;

fn main() {
    for length in [64, 1024, 8192] {
        let chunk = vec![7; (4 << 20) / (2 * length) * 2 * length];
        print_speed::<Tokens>(
            &format!("records of {length} tokens"),
            &[("length", &length.to_string())],
            &chunk,
        );
    }
}
