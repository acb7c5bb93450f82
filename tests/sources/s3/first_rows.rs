//! How soon the first records of a large object are there, in round trips.

use std::fs::File;
use std::io::Write;
use std::time::Duration;

use pipemill_s3_test::proxy::{Fault, Kind, Plan, Proxy, Request};
use pipemill_s3_test::servers::{S3Server, S3s};
use pipemill_tests::process::finish;
use pipemill_tests::test_dir::TestDir;

use super::credentials::signed;

/// The size of the object. Nearly all of it is a hole in the server's file.
const SIZE: u64 = 4 << 30;

/// Longer than anything takes: an answer that is held for so long never comes.
const NEVER: Duration = Duration::from_secs(3600);

/// Only the HEAD request and the object's first bytes are answered, and that is enough: at most two
/// round trips follow one another. With another one this test would not end.
#[test]
fn the_first_records_of_a_large_object_take_two_round_trips() {
    let place = TestDir::new();
    let folder = place.make_folder("s3");
    let server = S3s::start(&folder);
    // Makes the bucket.
    server.put("bucket", "small", b"");
    let mut object = File::create(folder.join("bucket/big.csv")).expect("the folder exists");
    let rows: String = (0..200_000).map(|row| format!("{row},{row}.5,text {row}\n")).collect();
    object.write_all(b"id,x,name\n").and_then(|()| object.write_all(rows.as_bytes())).unwrap();
    object.set_len(SIZE).expect("a hole takes no room");

    let is_needed = |request: &Request| {
        let first = request.range.as_ref().is_some_and(|range| range.starts_with("bytes=0-"));
        request.method == "HEAD" || first
    };
    let hold = move |request: &Request| {
        (!is_needed(request)).then(|| Fault::from(Kind::SlowStart).hold(NEVER))
    };
    // With and without the decoder: it is found by the same bytes that are decoded.
    for decoder in
        [&[][..], &["-d", "csv", "-o", "types=id:int64,x:float64,name:utf8", "-o", "header=true"]]
    {
        let proxy = Proxy::start(&server.endpoint(), Plan::default().hook(hold)).unwrap();
        let args = ["cat", "--limit", "5", "--output", "csv", "s3://bucket/big.csv"];
        let args = [&args[..], decoder].concat();
        let ended = finish(&mut signed(&place, &server, &proxy.endpoint(), &args)).with_code(0);
        assert_eq!(
            ended.text(),
            "id,x,name\n0,0.5,text 0\n1,1.5,text 1\n2,2.5,text 2\n3,3.5,text 3\n4,4.5,text 4\n"
        );
        let log = proxy.log();
        let answered: Vec<_> = log.iter().filter(|entry| entry.status.is_some()).collect();
        let methods: Vec<_> = answered.iter().map(|entry| &*entry.request.method).collect();
        assert_eq!(methods, ["HEAD", "GET"], "{log:#?}");
    }
}
