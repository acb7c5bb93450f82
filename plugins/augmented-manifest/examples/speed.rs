//! Prints the speed of the decoder outside the sandbox:
//! `cargo run --release -p pipemill-augmented-manifest --example augmented-manifest-speed`

use pipemill_augmented_manifest::AugmentedManifest;
use pipemill_parsing::testing::write_recordio_part;
use pipemill_plugin::testing::print_speed;

/// A chunk of about 4 MiB with groups of an object of one size and two short texts.
fn chunk(size: usize) -> Vec<u8> {
    let mut file = Vec::new();
    while file.len() < 4 << 20 {
        for length in [size, 1, 30] {
            write_recordio_part(&mut file, 0, &vec![b'.'; length]);
        }
    }
    file
}

fn main() {
    for size in [100, 1 << 10, 100 << 10] {
        let options = [("attributes", "image-ref,label,box")];
        let what = format!("objects of {size:>6} bytes");
        print_speed::<AugmentedManifest>(&what, &options, &chunk(size));
    }
}
