//! Prints the speed of the decoder outside the sandbox:
//! `cargo run --release -p pipemill-npz --example npz-speed`

use pipemill_npz::Npz;
use pipemill_plugin::testing::{crc32, print_speed};

/// An archive with about 8 MiB of rows of `size` bytes.
fn archive(size: usize) -> Vec<u8> {
    let rows = (8 << 20) / size;
    let text = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({rows}, {size}), }}\n");
    let mut array = b"\x93NUMPY\x01\0".to_vec();
    array.extend_from_slice(&(text.len() as u16).to_le_bytes());
    array.extend_from_slice(text.as_bytes());
    array.resize(array.len() + rows * size, 1);
    let sums =
        [crc32(&array), array.len() as u32, array.len() as u32].map(u32::to_le_bytes).concat();
    let about = [&[0; 6][..], &sums, &[5, 0, 0, 0]].concat();
    let local = [b"PK\x03\x04\x14\0\0\0", &about[..], b"x.npy", &array].concat();
    let mut entry = [b"PK\x01\x02\x14\0\x14\0\0\0", &about[..], &[0; 14], b"x.npy"].concat();
    entry[42..46].fill(0);
    let mut end = b"PK\x05\x06\0\0\0\0\x01\0\x01\0".to_vec();
    end.extend_from_slice(&(entry.len() as u32).to_le_bytes());
    end.extend_from_slice(&(local.len() as u32).to_le_bytes());
    end.extend_from_slice(&[0; 2]);
    [local, entry, end].concat()
}

fn main() {
    for size in [16, 128, 3072, 150_528] {
        for verify in ["false", "true"] {
            let what = format!("stored rows of {size} bytes, verify = {verify}");
            print_speed::<Npz>(&what, &[("verify", verify)], &archive(size));
        }
    }
}
