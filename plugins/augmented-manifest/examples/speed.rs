//! Speed of the decoder by itself, natively:
//! `cargo run --release -p pipemill-augmented-manifest --example augmented-manifest-speed`

use pipemill_augmented_manifest::AugmentedManifest;
use pipemill_plugin::testing::print_speed;

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
        let options = [("attributes", "image-ref,label,box")];
        let what = format!("objects of {size:>6} bytes");
        print_speed::<AugmentedManifest>(&what, &options, &chunk(size));
    }
}
