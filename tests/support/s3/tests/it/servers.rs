//! Tests of the other servers, directly and through the proxy. Servers that are not installed are
//! left out.

use pipemill_s3_test::client::{Client, DecodeOutcome, get, request, target};
use pipemill_s3_test::proxy::{Fault, Kind, Plan, Proxy, Rule};
use pipemill_s3_test::servers::{Moto, Rclone, S3Server, S3s};

#[test]
fn rclone_requires_signatures_and_sees_changes() {
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = Rclone::start(folder.path()) else { return };
    server.put("bucket", "folder/object", b"bytes");
    let answer = get(&server.endpoint(), "/bucket/folder/object", None).unwrap();
    assert!(
        answer.text().contains("UnsupportedAlgorithm"),
        "it wants a signature: {}",
        answer.text()
    );
    let endpoint = server.endpoint();
    drop(server);
    assert!(Client::connect(&endpoint).is_err());

    let server = Rclone::start_open(folder.path()).expect("it was there just now");
    let proxy = Proxy::start(&server.endpoint(), Plan::default()).unwrap();
    let answer = get(&proxy.endpoint(), "/bucket/folder/object", Some("bytes=1-2")).unwrap();
    // Its status for a range is 200.
    assert_eq!(answer.text(), "yt", "{}", server.log());
    assert_eq!(answer.header("content-range"), Some("bytes 1-2/5"));
    server.put("bucket", "later", b"");
    let listed = get(&proxy.endpoint(), "/bucket?list-type=2", None).unwrap().text();
    assert!(listed.contains("<Key>later</Key>"), "{listed}");
    server.delete("bucket", "later");
    let listed = get(&proxy.endpoint(), "/bucket?list-type=2", None).unwrap().text();
    assert!(!listed.contains("<Key>later</Key>"), "{listed}");
}

/// Sends a GET to moto, with a signature: moto accepts any.
fn get_signed(endpoint: &str, target: &str, etag: Option<&str>) -> DecodeOutcome {
    let headers = [("authorization", Moto::AUTHORIZATION), ("if-match", etag.unwrap_or_default())];
    let headers = &headers[..1 + usize::from(etag.is_some())];
    request(endpoint, "GET", target, headers, b"").unwrap()
}

#[test]
fn moto_supports_conditions_and_any_key() {
    let Some(server) = Moto::start() else { return };
    let proxy = Proxy::start(&server.endpoint(), Plan::default()).unwrap();
    for key in ["object", "a b+c", "ü", "a//b", "folder/"] {
        server.put("bucket", key, key.as_bytes());
        let answer = get_signed(&proxy.endpoint(), &target("bucket", key), None);
        assert_eq!((answer.status, answer.text()), (200, key.to_owned()), "{}", server.log());
    }
    let listed = get_signed(&proxy.endpoint(), "/bucket?list-type=2", None).text();
    assert!(listed.contains("<KeyCount>5</KeyCount>"), "{listed}");
    assert_eq!(get_signed(&proxy.endpoint(), "/bucket/object", Some("\"other\"")).status, 412);
    server.delete("bucket", "object");
    assert_eq!(get_signed(&proxy.endpoint(), "/bucket/object", None).status, 404);
}

#[test]
fn the_proxy_injects_faults_before_moto() {
    let Some(server) = Moto::start() else { return };
    server.put("bucket", "object", &[7; 9999]);
    let fault = Fault::from(Kind::Truncate).at(5000);
    let plan = Plan::script([Rule::nth_of(0, "object", fault)]);
    let proxy = Proxy::start(&server.endpoint(), plan).unwrap();
    assert_eq!(get_signed(&proxy.endpoint(), "/bucket/object", None).body.len(), 5000);
    assert_eq!(get_signed(&proxy.endpoint(), "/bucket/object", None).body.len(), 9999);
}

#[test]
fn a_server_outlives_the_thread_that_started_it_and_ends_when_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let server = std::thread::spawn(move || S3s::start_open(&path)).join().unwrap();
    server.put("bucket", "object", b"here");
    assert_eq!(get(&server.endpoint(), "/bucket/object", None).unwrap().text(), "here");
    let endpoint = server.endpoint();
    drop(server);
    assert!(Client::connect(&endpoint).is_err());
}
