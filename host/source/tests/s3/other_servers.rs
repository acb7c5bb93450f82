//! Servers with ways of their own: rclone gives the checksum of the whole with each range, moto
//! closes each connection and keeps checksums. Left out where they are not installed.

use pipemill_s3_test::client;
use pipemill_s3_test::servers::{Moto, Rclone, S3Server};
use pipemill_source::s3::Objects;
use pipemill_source::{Start, Stop};
use pipemill_testing::bucket::BUCKET;
use pipemill_testing::inputs;
use pipemill_testing::test_dir::TestDir;

use crate::reading::{bytes, objects, read, read_source, s3, settings};

#[test]
fn objects_of_rclone_are_read() {
    let place = TestDir::new();
    let Some(server) = Rclone::start_open(&place.make_folder("s3")) else { return };
    let object = bytes(1, 100_000);
    server.put(BUCKET, "one", &object);
    server.put(BUCKET, "empty", b"");
    let (received, end) = read(&settings(&server.endpoint(), ""));
    assert_eq!(end.ok(), Some(1));
    assert!(received.len() == 2 && received[0].bytes.is_empty() && received[1].bytes == object);
    let (received, end) = read(&objects(&server.endpoint(), &["one", "empty"]));
    assert!(end.is_ok() && received[0].bytes == object);
}

/// Puts an object with more headers, as a client of moto may.
pub fn put(server: &Moto, key: &str, headers: &[(&str, &str)], bytes: &[u8]) {
    let target = client::target(BUCKET, key);
    // To be read without credentials.
    let headers = &[headers, &[("x-amz-acl", "public-read")]].concat();
    let answer = client::request(&server.endpoint(), "PUT", &target, headers, bytes).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn checksums_that_moto_keeps_are_compared() {
    let Some(server) = Moto::start() else { return };
    server.make_bucket(BUCKET);
    let object = bytes(1, 100_000);
    let sum = |bytes: &[u8]| {
        use base64::Engine;
        base64::engine::general_purpose::STANDARD.encode(crc32(bytes).to_be_bytes())
    };
    let right = sum(&object);
    let wrong = sum(b"something else");
    put(
        &server,
        "right",
        &[("x-amz-checksum-crc32", &right), ("x-amz-sdk-checksum-algorithm", "CRC32")],
        &object,
    );
    let (received, end) = read(&objects(&server.endpoint(), &["right"]));
    assert!(end.is_ok() && received[0].bytes == object, "{end:?}");
    put(
        &server,
        "wrong",
        &[("x-amz-checksum-crc32", &wrong), ("x-amz-sdk-checksum-algorithm", "CRC32")],
        &object,
    );
    let (_, end) = read(&objects(&server.endpoint(), &["wrong"]));
    let error = end.unwrap_err();
    assert!(error.message.contains("the server keeps CRC32"), "{error}");
}

#[test]
fn the_encoding_that_moto_tells_is_used() {
    let Some(server) = Moto::start() else { return };
    server.make_bucket(BUCKET);
    let text = b"some text ".repeat(10_000);
    put(&server, "gzipped", &[("content-encoding", "gzip")], &inputs::gzip(&text));
    put(&server, "other", &[("content-encoding", "br")], &text);
    // A charset is no compression.
    put(&server, "charset", &[("content-encoding", "utf-8")], &text);
    let (received, end) = read(&objects(&server.endpoint(), &["charset"]));
    assert!(end.is_ok() && received[0].bytes == text, "{end:?}");
    let (received, end) = read(&objects(&server.endpoint(), &["gzipped"]));
    assert!(end.is_ok() && received[0].bytes == text, "{end:?}");
    // From the middle: a HEAD tells the encoding before, or the first answer, which is then too
    // late.
    for settings in [objects(&server.endpoint(), &["gzipped"]), settings(&server.endpoint(), "gz")]
    {
        for offset in [1, 100, 50_000, text.len()] {
            let start = Start { epoch: 0, ordinal: 0, offset: offset as u64 };
            let mut source = Objects::new(s3(), settings.clone(), start, Stop::new().unwrap());
            let (received, end) = read_source(&mut source);
            assert!(end.is_ok() && received[0].bytes == text[offset..], "{offset}: {end:?}");
        }
    }
    let (_, end) = read(&objects(&server.endpoint(), &["other"]));
    let error = end.unwrap_err();
    assert!(error.message.contains("Content-Encoding is `br`"), "{error}");
    assert!(error.remedy.contains("compression = \"none\""));
}

/// As zlib has it, a bit at a time.
pub fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    };
    !bytes.iter().fold(u32::MAX, step)
}
