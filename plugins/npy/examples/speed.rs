//! Prints the speed of the decoder outside the sandbox:
//! `cargo run --release -p pipemill-npy --example npy-speed`

use pipemill_npy::Npy;
use pipemill_plugin::testing::print_speed;

/// About 8 MiB of rows of `size` bytes.
fn array(descr: &str, dims: &str, size: usize) -> Vec<u8> {
    let rows = (8 << 20) / size;
    let text =
        format!("{{'descr': {descr}, 'fortran_order': False, 'shape': ({rows}, {dims}), }}\n");
    let mut file = b"\x93NUMPY\x01\0".to_vec();
    file.extend_from_slice(&(text.len() as u16).to_le_bytes());
    file.extend_from_slice(text.as_bytes());
    file.resize(file.len() + rows * size, 1);
    file
}

fn main() {
    for size in [4, 16, 128, 3072, 150_528] {
        let file = array("'|u1'", &size.to_string(), size);
        print_speed::<Npy>(&format!("rows of {size} bytes"), &[], &file);
    }
    let members = "[('a', '<i8'), ('b', '<f4', (30,))]";
    print_speed::<Npy>("two members, 128 bytes", &[], &array(members, "", 128));
    print_speed::<Npy>("booleans, 128 bytes", &[], &array("'|b1'", "128", 128));
    print_speed::<Npy>("bytes, 128 of them", &[], &array("'|S128'", "", 128));
}
