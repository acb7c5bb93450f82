//! Prints the speed of the decoder outside the sandbox, for blocks without compression:
//! `cargo run --release -p pipemill-avro --example avro-speed`

use pipemill_avro::Avro;
use pipemill_plugin::testing::print_speed;

/// Number of records of a block, which has some KiB, as most writers make them.
const BLOCK_RECORDS: usize = 200;
const SYNC: &[u8; 16] = b"0123456789abcdef";

fn long(file: &mut Vec<u8>, value: i64) {
    let mut left = (value << 1 ^ value >> 63) as u64;
    while left >= 0x80 {
        file.push(left as u8 | 0x80);
        left >>= 7;
    }
    file.push(left as u8);
}

fn text(file: &mut Vec<u8>, text: &str) {
    long(file, text.len() as i64);
    file.extend_from_slice(text.as_bytes());
}

/// About 16 MiB of records, each written by `record`. Prints their size.
fn file(fields: &str, record: impl Fn(i64, &mut Vec<u8>)) -> Vec<u8> {
    let mut file = b"Obj\x01\x02".to_vec();
    text(&mut file, "avro.schema");
    text(&mut file, &format!("{{\"type\": \"record\", \"name\": \"r\", \"fields\": [{fields}]}}"));
    file.push(0);
    file.extend_from_slice(SYNC);
    let (mut number, mut block) = (0, Vec::new());
    while file.len() < 16 << 20 {
        block.clear();
        for _ in 0..BLOCK_RECORDS {
            record(number, &mut block);
            number += 1;
        }
        long(&mut file, BLOCK_RECORDS as i64);
        long(&mut file, block.len() as i64);
        file.extend_from_slice(&block);
        file.extend_from_slice(SYNC);
    }
    println!("records of {} bytes", file.len() as i64 / number);
    file
}

/// A field of a schema. The type is in JSON.
fn field(name: &str, of: &str) -> String {
    format!("{{\"name\": \"{name}\", \"type\": {of}}}")
}

fn main() {
    let fields = [
        field("id", "\"long\""),
        field("time", "{\"type\": \"long\", \"logicalType\": \"timestamp-millis\"}"),
        field("user", "\"string\""),
        field("text", "\"string\""),
        field("score", "\"double\""),
        field("count", "\"int\""),
        field("kind", "{\"type\": \"enum\", \"name\": \"k\", \"symbols\": [\"a\", \"b\"]}"),
        field("rank", "[\"null\", \"int\"]"),
    ];
    let written = file(&fields.join(","), |number, to| {
        long(to, number);
        long(to, 1_700_000_000_000 + 1234 * number);
        text(to, &format!("user-{}", number * 7919 % 100_000));
        text(to, &"lorem ipsum dolor sit amet consectetur "[..20 + number as usize % 19]);
        to.extend_from_slice(&(number as f64 / 7.0).to_le_bytes());
        long(to, number % 500);
        long(to, number & 1);
        if number % 3 == 0 {
            to.push(0);
        } else {
            to.push(2);
            long(to, number % 1000);
        }
    });
    print_speed::<Avro>("eight fields", &[], &written);
    print_speed::<Avro>("two fields of eight", &[("fields", "text,score")], &written);

    let written = file(&field("text", "\"string\""), |number, to| {
        text(to, &"lorem ipsum ".repeat(50 + number as usize % 50));
    });
    print_speed::<Avro>("texts", &[], &written);

    let numbers: Vec<_> = (0..8).map(|at| field(&format!("n{at}"), "\"long\"")).collect();
    let written = file(&numbers.join(","), |number, to| {
        (0..8).for_each(|at| long(to, number << (4 * at)));
    });
    print_speed::<Avro>("eight numbers", &[], &written);

    let of = "{\"type\": \"array\", \"items\": \"float\"}";
    let written = file(&field("vector", of), |number, to| {
        long(to, 128);
        (0..128).for_each(|at| to.extend_from_slice(&((number * at) as f32).to_le_bytes()));
        to.push(0);
    });
    print_speed::<Avro>("arrays of 128 float", &[], &written);
}
