//! Objects that are written and read as a whole: an index.

use std::fs;
use std::sync::Once;

use pipemill_s3_test::proxy::{Fault, Kind, Plan, Proxy, Request, Rule};
use pipemill_s3_test::servers::{S3Server, S3s};
use pipemill_source::SourceError;
use pipemill_source::s3::{Address, read_object, write_object};
use pipemill_testing::bucket::{BUCKET, Bucket};

use crate::reading::{bytes, s3, settings};

/// More than S3's smallest part, so that an object is sent in several.
const LARGE: usize = 11 << 20;

fn address(key: &str) -> Address {
    format!("s3://{BUCKET}/{key}").parse().unwrap()
}

fn write(endpoint: &str, bytes: &[u8], replaces: Option<&str>) -> Result<(), SourceError> {
    let bytes = bytes.to_vec().into();
    write_object(&s3(), &settings(endpoint, ""), &address("one"), bytes, replaces)
}

fn read(endpoint: &str) -> (Vec<u8>, Option<String>) {
    let read = read_object(&s3(), &settings(endpoint, ""), &address("one")).unwrap();
    (read.bytes, read.etag)
}

/// The parts that the server keeps of uploads that have not ended. An upload whose first answer was
/// lost has none: nobody knows its id.
fn parts(server: &S3s) -> usize {
    let folder = server.file(BUCKET, "one").parent().unwrap().parent().unwrap().join(".uploads");
    let names = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter(|name| !name.to_string_lossy().ends_with(".0")).count()
}

fn methods(proxy: &Proxy) -> Vec<String> {
    proxy.log().iter().map(|entry| entry.request.method.clone()).collect()
}

#[test]
fn an_object_is_what_was_written() {
    let bucket = Bucket::new();
    let endpoint = bucket.server.endpoint();
    for size in [0, 1, 100_000, 5 << 20, (5 << 20) + 1, LARGE] {
        let object = bytes(size as u64, size);
        write(&endpoint, &object, None).unwrap();
        let (read, etag) = read(&endpoint);
        assert!(read == object && etag.is_some(), "{size}");
        assert_eq!(parts(&bucket.server), 0);
    }
}

#[test]
fn only_the_state_that_was_read_is_replaced() {
    for size in [100, LARGE] {
        let bucket = Bucket::with([("one", b"first")]);
        let endpoint = bucket.server.endpoint();
        let first = read(&endpoint).1.unwrap();
        let object = bytes(1, size);
        write(&endpoint, &object, Some(&first)).unwrap();
        assert!(read(&endpoint).0 == object);
        let error = write(&endpoint, b"third", Some(&first)).unwrap_err();
        assert!(error.message.contains("was replaced by another writer"), "{error}");
        assert!(read(&endpoint).0 == object);
        fs::remove_file(bucket.server.file(BUCKET, "one")).unwrap();
        let error = write(&endpoint, b"third", Some(&first)).unwrap_err();
        assert!(error.message.contains("it was removed"), "{error}");
    }
}

/// The other writer comes after the ETag was compared, with the request that writes: only the
/// server can see it.
#[test]
fn the_server_refuses_what_another_writer_has_replaced_meanwhile() {
    for size in [100, LARGE] {
        let bucket = Bucket::with([("one", b"first")]);
        let (path, once) = (bucket.server.file(BUCKET, "one"), Once::new());
        let proxy = bucket.proxy(Plan::default().hook(move |request: &Request| {
            if request.if_match.is_some() && request.method != "GET" {
                once.call_once(|| {
                    let next = path.with_extension("next");
                    fs::write(&next, b"other").unwrap();
                    fs::rename(&next, &path).unwrap();
                });
            }
            None
        }));
        let first = read(&bucket.server.endpoint()).1.unwrap();
        let error = write(&proxy.endpoint(), &bytes(1, size), Some(&first)).unwrap_err();
        assert!(error.message.contains("was replaced by another writer"), "{error}");
        assert_eq!(read(&bucket.server.endpoint()).0, b"other");
        assert_eq!(parts(&bucket.server), 0);
    }
}

#[test]
fn a_server_without_conditions_is_asked_without_them() {
    let bucket = Bucket::with([("one", b"first")]);
    let first = read(&bucket.server.endpoint()).1.unwrap();
    let proxy = bucket.proxy(Plan::default().hook(|request: &Request| {
        let is_conditional = request.method == "PUT" && request.if_match.is_some();
        is_conditional.then(|| Fault::error(501, "NotImplemented"))
    }));
    write(&proxy.endpoint(), b"second", Some(&first)).unwrap();
    assert_eq!(methods(&proxy), ["HEAD", "PUT", "PUT"]);
    assert_eq!(read(&bucket.server.endpoint()).0, b"second");
    // It has another ETag now, which is seen before anything is written.
    let error = write(&proxy.endpoint(), b"third", Some(&first)).unwrap_err();
    assert!(error.message.contains("was replaced by another writer"), "{error}");
}

/// The object was written, and the answer was lost: the next try finds another ETag, or no upload.
#[test]
fn an_object_whose_answer_was_lost_counts_as_written() {
    let lost = || Fault::from(Kind::ResetWithin).at(10);
    let is_end =
        |request: &Request| request.method == "POST" && request.target.contains("uploadId");
    let bucket = Bucket::with([("one", b"first")]);
    let first = read(&bucket.server.endpoint()).1.unwrap();
    let proxy = bucket.proxy(Plan::script([Rule::nth(0, is_end, lost())]));
    let object = bytes(1, LARGE);
    write(&proxy.endpoint(), &object, Some(&first)).unwrap();
    assert!(read(&bucket.server.endpoint()).0 == object);
    assert_eq!(proxy.faults().values().sum::<usize>(), 1);
}

#[test]
fn an_object_is_written_in_spite_of_faults() {
    let kinds = [Kind::SlowDown, Kind::InternalError, Kind::ResetBefore, Kind::Truncate];
    for seed in 0..4 {
        let bucket = Bucket::with([("one", b"first")]);
        let proxy = bucket.proxy(Plan::random(seed, 0.4, &kinds));
        let object = bytes(seed, LARGE);
        write(&proxy.endpoint(), &object, None).unwrap();
        assert!(read(&proxy.endpoint()).0 == object);
        assert_eq!(parts(&bucket.server), 0);
    }
}

#[test]
fn an_upload_that_fails_leaves_the_older_object_and_no_part() {
    let bucket = Bucket::with([("one", b"first")]);
    let is_third = |request: &Request| request.target.contains("partNumber=3");
    let refused = Fault::error(403, "AccessDenied");
    let proxy = bucket.proxy(Plan::script([Rule::nth(0, is_third, refused)]));
    let error = write(&proxy.endpoint(), &bytes(1, LARGE), None).unwrap_err();
    assert!(error.message.contains("PUT of part 3 was answered with 403"), "{error}");
    assert!(error.remedy.contains("s3:PutObject"), "{}", error.remedy);
    assert_eq!(read(&bucket.server.endpoint()).0, b"first");
    assert_eq!(parts(&bucket.server), 0);
}

#[test]
fn an_object_that_is_replaced_while_it_is_read_is_read_again() {
    let (old, new) = (bytes(1, 200_000), bytes(2, 150_000));
    let bucket = Bucket::with([("one", &old)]);
    let (path, once, next) = (bucket.server.file(BUCKET, "one"), Once::new(), new.clone());
    let proxy = bucket.proxy(Plan::default().hook(move |request: &Request| {
        if request.range.as_ref().is_some_and(|range| !range.starts_with("bytes=0-")) {
            once.call_once(|| {
                let draft = path.with_extension("next");
                fs::write(&draft, &next).unwrap();
                fs::rename(&draft, &path).unwrap();
            });
        }
        None
    }));
    assert!(read(&proxy.endpoint()).0 == new);
}
