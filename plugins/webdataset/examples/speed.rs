//! Prints the speed of the decoder outside the sandbox:
//! `cargo run --release -p pipemill-webdataset --example webdataset-speed`. With fields and a file
//! after `--`, that of this file, to compare it with `pipemill plugin bench --data`.

use pipemill_plugin::testing::print_speed;
use pipemill_webdataset::WebDataset;

/// About 8 MiB of samples with these members: extensions and data.
fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut file = Vec::new();
    for number in 0.. {
        for (extension, data) in members {
            let mut header = [0; 512];
            let name = format!("train/{number:08}.{extension}");
            header[..name.len()].copy_from_slice(name.as_bytes());
            header[124..135].copy_from_slice(format!("{:011o}", data.len()).as_bytes());
            header[148..156].fill(b' ');
            header[156] = b'0';
            header[257..265].copy_from_slice(b"ustar\x0000");
            let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
            header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
            file.extend_from_slice(&header);
            file.extend_from_slice(data);
            file.resize(file.len().next_multiple_of(512), 0);
        }
        if file.len() > 8 << 20 {
            break;
        }
    }
    file.resize(file.len() + 1024, 0);
    file
}

/// An array of 1024 bytes.
fn array() -> Vec<u8> {
    let dict = "{'descr': '|u1', 'fortran_order': False, 'shape': (1024,), }";
    let header = [&b"\x93NUMPY\x01\0\x76\0"[..], format!("{dict:<117}\n").as_bytes()].concat();
    [header, vec![7; 1024]].concat()
}

fn main() {
    let given: Vec<_> = std::env::args().skip(1).collect();
    if let [fields, file] = &given[..] {
        let data = std::fs::read(file).unwrap_or_else(|error| panic!("{file}: {error}"));
        return print_speed::<WebDataset>(file, &[("fields", fields)], &data);
    }
    for size in [100, 1 << 10, 10 << 10, 100 << 10] {
        let data = vec![b'.'; size];
        let file = archive(&[("jpg", &data), ("cls", &data)]);
        print_speed::<WebDataset>(
            &format!("members of {size} bytes"),
            &[("fields", "jpg,cls")],
            &file,
        );
    }
    let (array, text) = (array(), br#"{"label": 12, "box": [1, 2, 3, 4]}"#);
    let file = archive(&[("npy", &array), ("cls", b"12"), ("json", text)]);
    for fields in [
        "npy,cls,json",
        "npy:uint8[1024],cls,json",
        "npy,cls:int64,json",
        "npy,cls,json/label:int64",
    ] {
        print_speed::<WebDataset>(fields, &[("fields", fields)], &file);
    }
}
