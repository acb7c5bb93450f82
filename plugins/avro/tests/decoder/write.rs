//! A writer of Avro by its specification. It can also write invalid files.

use std::io::Write;

pub const SYNC: [u8; 16] = *b"<-- the sync -->";

/// The codecs that the decoder knows.
pub const CODECS: [&str; 4] = ["null", "deflate", "snappy", "zstandard"];

/// An `int` or a `long`.
pub fn long(value: i64) -> Vec<u8> {
    let mut left = (value << 1 ^ value >> 63) as u64;
    let mut bytes = Vec::new();
    while left >= 0x80 {
        bytes.push(left as u8 | 0x80);
        left >>= 7;
    }
    bytes.push(left as u8);
    bytes
}

/// Bytes or text.
pub fn string(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    [&long(bytes.as_ref().len() as i64), bytes.as_ref()].concat()
}

/// An array or a map, whose items are these. They are in blocks of `per_block`; with `sized`, each
/// block says its size.
pub fn items(items: &[Vec<u8>], per_block: usize, sized: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    for block in items.chunks(per_block.max(1)) {
        let (count, block) = (block.len() as i64, block.concat());
        if sized {
            bytes.extend([long(-count), long(block.len() as i64)].concat());
        } else {
            bytes.extend(long(count));
        }
        bytes.extend(block);
    }
    bytes.push(0);
    bytes
}

/// A header with these metadata.
pub fn header_of(metadata: &[(&str, &[u8])]) -> Vec<u8> {
    let entries: Vec<_> =
        metadata.iter().map(|(key, value)| [string(key), string(value)].concat()).collect();
    [b"Obj\x01", &items(&entries, usize::MAX, false)[..], &SYNC].concat()
}

pub fn header(schema: &str, codec: &str) -> Vec<u8> {
    header_of(&[("avro.schema", schema.as_bytes()), ("avro.codec", codec.as_bytes())])
}

/// A block with its sync marker.
pub fn block(codec: &str, records: i64, data: &[u8]) -> Vec<u8> {
    let data = compress(codec, data);
    [&long(records)[..], &string(data), &SYNC].concat()
}

/// A file. Each block has a number of records, and their bytes.
pub fn file(schema: &str, codec: &str, blocks: &[(i64, Vec<u8>)]) -> Vec<u8> {
    let blocks = blocks.iter().flat_map(|(records, data)| block(codec, *records, data));
    header(schema, codec).into_iter().chain(blocks).collect()
}

/// A file of one block, in which each record has these bytes.
pub fn one_block(schema: &str, codec: &str, records: &[Vec<u8>]) -> Vec<u8> {
    file(schema, codec, &[(records.len() as i64, records.concat())])
}

pub fn compress(codec: &str, data: &[u8]) -> Vec<u8> {
    match codec {
        "deflate" => {
            let mut to = flate2::write::DeflateEncoder::new(Vec::new(), Default::default());
            to.write_all(data).expect("memory can be written to");
            to.finish().expect("memory can be written to")
        }
        "snappy" => {
            let crc = pipemill_plugin::testing::crc32(data);
            let block = snap::raw::Encoder::new().compress_vec(data).expect("not too large");
            [block, crc.to_be_bytes().to_vec()].concat()
        }
        "zstandard" => zstd::encode_all(data, 1).expect("memory can be read"),
        _ => data.to_vec(),
    }
}
