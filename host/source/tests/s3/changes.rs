//! An object that becomes another one while it is read.

use std::fs;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use pipemill_s3_test::proxy::{Plan, Request};
use pipemill_s3_test::servers::S3s;
use pipemill_source::s3::{Objects, OnChange};
use pipemill_source::{Compression, Start, Stop};
use pipemill_testing::bucket::{BUCKET, Bucket};

use crate::reading::{bytes, objects, read, read_source, s3, settings};
use pipemill_testing::inputs::gzip;

/// Does something before the n-th GET of the object is passed on.
fn before_get(number: usize, act: impl Fn() + Send + Sync + 'static) -> Plan {
    let count = AtomicUsize::new(0);
    Plan::default().hook(move |request: &Request| {
        let is_get = request.method == "GET" && request.target.contains("/one");
        if is_get && count.fetch_add(1, Ordering::SeqCst) == number {
            act();
        }
        None
    })
}

/// Does something before the first GET of the object's start is passed on. Those of its later parts
/// may overtake it.
fn before_start(act: impl Fn() + Send + Sync + 'static) -> Plan {
    let once = Once::new();
    Plan::default().hook(move |request: &Request| {
        let is_start = request.range.as_ref().is_some_and(|range| range.starts_with("bytes=0-"));
        if request.method == "GET" && request.target.contains("/one") && is_start {
            once.call_once(&act);
        }
        None
    })
}

fn replace(server: &S3s, bytes: Vec<u8>) -> impl Fn() + Send + Sync + 'static {
    let path = server.file(BUCKET, "one");
    move || {
        // Another file under the same name, as a server has it.
        let next = path.with_extension("next");
        fs::write(&next, &bytes).unwrap();
        fs::rename(&next, &path).unwrap();
    }
}

#[test]
fn an_object_that_changes_while_it_is_read_is_an_error() {
    for (from, size) in [(0, 100_000), (2, 100_000), (2, 99_999), (0, 10)] {
        let bucket = Bucket::with([("one", bytes(1, 100_000))]);
        let proxy = bucket.proxy(before_get(from, replace(&bucket.server, bytes(2, size))));
        let mut settings = settings(&proxy.endpoint(), "one");
        settings.concurrency = 1;
        let (received, end) = read(&settings);
        let error = end.unwrap_err();
        assert!(error.message.contains("changed while it was read"), "{error}");
        assert!(error.remedy.contains("fixed version"), "{}", error.remedy);
        // What came before is of the old one.
        let received = received.concat_bytes();
        assert!(bytes(1, 100_000).starts_with(&received), "bytes of two states were mixed");
    }
}

#[test]
fn a_changed_object_is_read_again_if_nothing_of_it_was_given() {
    let new = bytes(2, 50_000);
    let bucket = Bucket::with([("one", bytes(1, 100_000)), ("two", b"2".to_vec())]);
    let proxy = bucket.proxy(before_start(replace(&bucket.server, new.clone())));
    let mut settings = settings(&proxy.endpoint(), "");
    settings.on_change = OnChange::RestartObject;
    let (received, end) = read(&settings);
    assert_eq!(end.ok(), Some(1));
    assert!(received.len() == 2 && received[0].bytes == new && received[1].bytes == b"2");
}

#[test]
fn a_changed_object_is_not_read_again_later() {
    let bucket = Bucket::with([("one", bytes(1, 100_000))]);
    let proxy = bucket.proxy(before_get(2, replace(&bucket.server, bytes(2, 100_000))));
    let mut settings = objects(&proxy.endpoint(), &["one"]);
    settings.on_change = OnChange::RestartObject;
    settings.concurrency = 1;
    let (received, end) = read(&settings);
    assert!(end.unwrap_err().message.contains("changed while it was read"));
    assert!(bytes(1, 100_000).starts_with(&received.concat_bytes()));
}

/// Only of the old object's bytes it is known that an earlier process has decoded them.
#[test]
fn a_changed_object_is_not_read_again_from_the_middle() {
    let bucket = Bucket::with([("one", gzip(&bytes(1, 50_000)))]);
    let new = gzip(&bytes(2, 50_000));
    let proxy = bucket.proxy(before_get(0, replace(&bucket.server, new)));
    let mut settings = settings(&proxy.endpoint(), "one");
    settings.on_change = OnChange::RestartObject;
    settings.reading.compression = Compression::Gzip;
    let start = Start { epoch: 0, ordinal: 0, offset: 100 };
    let mut source = Objects::new(s3(), settings, start, Stop::new().unwrap());
    let (received, end) = read_source(&mut source);
    assert!(end.unwrap_err().message.contains("changed while it was read"));
    // Of the old bytes some may have come, if their request overtook the first one. Of the new ones
    // none may.
    assert!(bytes(1, 50_000)[100..].starts_with(&received[0].bytes));
}

#[test]
fn an_object_that_is_deleted_while_it_is_read_is_missing() {
    let bucket = Bucket::with([("one", bytes(1, 100_000))]);
    let path = bucket.server.file(BUCKET, "one");
    let proxy = bucket.proxy(before_get(1, move || fs::remove_file(&path).unwrap()));
    let mut settings = settings(&proxy.endpoint(), "one");
    settings.concurrency = 1;
    let (_, end) = read(&settings);
    let error = end.unwrap_err();
    assert!(error.missing && error.message.contains("404 NoSuchKey"), "{error}");
}

/// Whether it asks for a later part of the object.
fn is_later_part(request: &Request) -> bool {
    let range = request.range.as_deref().unwrap_or("bytes=0-");
    request.method == "GET" && request.target.contains("/one") && !range.starts_with("bytes=0-")
}

/// A head without the line of this header.
fn without(name: &str, head: String) -> String {
    let keeps = |line: &&str| !line.to_ascii_lowercase().starts_with(&format!("{name}:"));
    head.split_inclusive("\r\n").filter(keeps).collect()
}

/// Gives the bytes of another object for the later parts of the first.
fn other_bytes(plan: Plan) -> Plan {
    plan.edit_request(|request, head| match is_later_part(request) {
        true => without("if-match", head.replacen("/one", "/two", 1)),
        false => head,
    })
}

#[test]
fn parts_of_another_object_are_refused() {
    let no_etag = |request: &Request, head| match is_later_part(request) {
        true => without("etag", head),
        false => head,
    };
    let plan = Plan::default;
    for (plan, says) in [
        (other_bytes(plan()), "changed while it was read: its ETag was"),
        (other_bytes(plan().edit_answer(no_etag)), "has no ETag, and the object's is"),
        (plan().edit_answer(no_etag), "has no ETag, and the object's is"),
    ] {
        let bucket = Bucket::with([("one", bytes(1, 100_000)), ("two", bytes(2, 100_000))]);
        let proxy = bucket.proxy(plan);
        let (received, end) = read(&settings(&proxy.endpoint(), "one"));
        let error = end.expect_err(says);
        assert!(error.message.contains(says), "{error}");
        assert_eq!(error.object.as_deref(), Some("s3://bucket/one"));
        assert!(bytes(1, 100_000).starts_with(&received.concat_bytes()), "bytes were mixed");
    }
}

/// A server without ETags can't show that two answers are of the same object. One answer is.
#[test]
fn without_any_etag_an_object_is_read_in_one_answer() {
    let bucket = Bucket::with([("one", bytes(1, 100_000))]);
    let proxy = bucket.proxy(Plan::default().edit_answer(|_, head| without("etag", head)));
    let mut settings = objects(&proxy.endpoint(), &["one"]);
    let error = read(&settings).1.unwrap_err();
    assert!(error.message.contains("nothing else shows that all parts are"), "{error}");
    assert!(error.remedy.contains("`part_size` larger"), "{}", error.remedy);
    settings.part_size = 1 << 20;
    let (received, end) = read(&settings);
    assert_eq!(end.ok(), Some(1));
    assert!(received[0].bytes == bytes(1, 100_000));
}

trait Concat {
    fn concat_bytes(&self) -> Vec<u8>;
}

impl Concat for Vec<crate::reading::ReceivedObject> {
    fn concat_bytes(&self) -> Vec<u8> {
        self.iter().flat_map(|received| received.bytes.iter().copied()).collect()
    }
}
