//! Prints the speed of the decoder outside the sandbox:
//! `cargo run --release -p pipemill-fixed --example fixed-speed`

use pipemill_fixed::Fixed;
use pipemill_plugin::testing::print_speed;

fn main() {
    for size in [16, 100, 1 << 10, 100 << 10] {
        let chunk = vec![7; (4 << 20) / size * size];
        print_speed::<Fixed>(
            &format!("records of {size} bytes"),
            &[("size", &size.to_string())],
            &chunk,
        );
    }
    let chunk = vec![7; 788 * 5_000];
    let fields = "label:int32,image:bytes[784]";
    print_speed::<Fixed>("a label and an image of 784 bytes", &[("fields", fields)], &chunk);
}
