//! Prints the speed of the decoder outside the sandbox:
//! `cargo run --release -p pipemill-webdataset --example webdataset-speed`

use pipemill_plugin::testing::print_speed;
use pipemill_webdataset::WebDataset;

/// About 8 MiB of samples with two members of this size.
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
        print_speed::<WebDataset>(
            &format!("members of {size} bytes"),
            &[("fields", "jpg,cls")],
            &file,
        );
    }
}
