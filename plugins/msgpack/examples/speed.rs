//! Prints the speed of the decoder outside the sandbox:
//! `cargo run --release -p pipemill-msgpack --example msgpack-speed [FILE FIELDS]`

use pipemill_msgpack::Msgpack;
use pipemill_plugin::testing::print_speed;

/// A str of up to 31 bytes, or a bin of up to 255.
fn string(to: &mut Vec<u8>, text: &str) {
    to.push(0xa0 | text.len() as u8);
    to.extend_from_slice(text.as_bytes());
}

/// About 4 MiB of maps of about 170 bytes: numbers, a text, a bin of 100 bytes. With `nested`, they
/// are inside other maps, and there is an unwanted one.
fn maps(nested: bool) -> Vec<u8> {
    let mut file = Vec::new();
    for id in 0u64.. {
        if nested {
            file.push(0x82);
            string(&mut file, "other");
            file.extend_from_slice(b"\x82\xa1a\x93\x01\x02\x03\xa1b\xc0");
            string(&mut file, "sample");
        }
        file.push(0x85);
        string(&mut file, "id");
        file.push(0xcf);
        file.extend_from_slice(&id.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        string(&mut file, "score");
        file.push(0xcb);
        file.extend_from_slice(&(id as f64 / 7.0).to_be_bytes());
        string(&mut file, "label");
        file.push(0xcd);
        file.extend_from_slice(&(id as u16).to_be_bytes());
        string(&mut file, "name");
        string(&mut file, &format!("sample-{id:x}"));
        string(&mut file, "data");
        file.extend_from_slice(&[0xc4, 100]);
        file.extend_from_slice(&[id as u8; 100]);
        if file.len() > 4 << 20 {
            break;
        }
    }
    file
}

/// About 4 MiB of arrays of 128 floats.
fn embeddings() -> Vec<u8> {
    let mut file = Vec::new();
    while file.len() < 4 << 20 {
        file.push(0x81);
        string(&mut file, "vec");
        file.extend_from_slice(&[0xdc, 0, 128]);
        for number in 0..128 {
            file.push(0xca);
            file.extend_from_slice(&(number as f32).to_be_bytes());
        }
    }
    file
}

const FIELDS: &str = "id:uint64,score:float64,label:int32,name:utf8,data:bytes";

fn main() {
    let given: Vec<String> = std::env::args().skip(1).collect();
    if let [path, fields] = &given[..] {
        let file = std::fs::read(path).expect("a file");
        print_speed::<Msgpack>("whole values", &[], &file);
        print_speed::<Msgpack>(fields, &[("fields", fields)], &file);
        return;
    }
    let file = maps(false);
    print_speed::<Msgpack>("whole values", &[], &file);
    print_speed::<Msgpack>("five fields", &[("fields", FIELDS)], &file);
    print_speed::<Msgpack>("one field of five", &[("fields", "name:utf8")], &file);
    let inner: Vec<_> = FIELDS.split(',').map(|field| format!("/sample/{field}")).collect();
    print_speed::<Msgpack>(
        "five fields of an inner map",
        &[("fields", &inner.join(","))],
        &maps(true),
    );
    let file = embeddings();
    print_speed::<Msgpack>("arrays of 128 float32", &[("fields", "vec:float32[128]")], &file);
}
