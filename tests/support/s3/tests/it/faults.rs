//! Tests of each kind of fault, as a client sees it.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use pipemill_s3_test::client::{Client, get, request};
use pipemill_s3_test::proxy::{Fault, Kind, Plan, Proxy, Rule};
use pipemill_s3_test::servers::S3Server;

use crate::{Fixture, SIZE, object};

const HOLD: Duration = Duration::from_millis(300);
/// Far longer than a client or a test waits.
const LONG: Duration = Duration::from_secs(3_600);

/// A proxy that injects a fault into the first request for the object.
fn proxy_with(fixture: &Fixture, fault: impl Into<Fault>) -> Proxy {
    fixture.proxy(Plan::script([Rule::nth_of(0, "object", fault)]))
}

/// Checks that the next request after the fault is answered in full, and that the fault was
/// counted.
fn assert_recovers(proxy: &Proxy, kind: Kind) {
    assert_eq!(get(&proxy.endpoint(), "/bucket/object", None).unwrap().body, object());
    assert!(proxy.wait_idle(Duration::from_millis(1)));
    assert_eq!(proxy.faults().into_iter().collect::<Vec<_>>(), [(kind, 1)]);
    assert_eq!(proxy.log()[0].fault, Some(kind));
}

#[test]
fn errors_have_the_form_of_s3_and_keep_the_connection() {
    let fixture = Fixture::new();
    for (fault, status, code) in [
        (Kind::SlowDown.into(), 503, "SlowDown"),
        (Kind::InternalError.into(), 500, "InternalError"),
        (Fault::error(400, "ExpiredToken"), 400, "ExpiredToken"),
    ] {
        let kind = fault.kind;
        let proxy = proxy_with(&fixture, fault);
        let mut client = Client::connect(&proxy.endpoint()).unwrap();
        let answer = client.request("GET", "/bucket/object", &[], b"").unwrap();
        assert_eq!(answer.status, status);
        assert!(answer.text().contains(&format!("<Error><Code>{code}</Code>")));
        assert_eq!(client.request("GET", "/bucket/object", &[], b"").unwrap().body, object());
        assert_eq!((proxy.connections(), proxy.log()[0].status), (1, Some(status)));
        assert_recovers(&proxy, kind);
    }
}

#[test]
fn an_error_for_head_has_no_body() {
    let fixture = Fixture::new();
    let proxy = proxy_with(&fixture, Kind::SlowDown);
    let mut client = Client::connect(&proxy.endpoint()).unwrap();
    assert_eq!(client.request("HEAD", "/bucket/object", &[], b"").unwrap().status, 503);
    assert_eq!(client.request("GET", "/bucket/object", &[], b"").unwrap().body, object());
}

#[test]
fn reset_before_the_answer() {
    let fixture = Fixture::new();
    let proxy = proxy_with(&fixture, Kind::ResetBefore);
    let error = get(&proxy.endpoint(), "/bucket/object", None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_recovers(&proxy, Kind::ResetBefore);
}

#[test]
fn reset_within_the_body() {
    let fixture = Fixture::new();
    let proxy = proxy_with(&fixture, Fault::from(Kind::ResetWithin).at(1000));
    let answer = get(&proxy.endpoint(), "/bucket/object", None).unwrap();
    // A reset may discard bytes that were sent before it.
    assert!(answer.body.len() <= 1000 && object().starts_with(&answer.body));
    assert_eq!(answer.broken.unwrap().kind(), ErrorKind::ConnectionReset);
    assert_recovers(&proxy, Kind::ResetWithin);
    assert_eq!((proxy.log()[0].status, proxy.log()[0].body), (Some(200), 1000));
}

#[test]
fn truncation_at_any_offset() {
    let fixture = Fixture::new();
    for at in [0, 1, 300_000, SIZE as u64 - 1] {
        let proxy = proxy_with(&fixture, Fault::from(Kind::Truncate).at(at));
        let answer = get(&proxy.endpoint(), "/bucket/object", None).unwrap();
        assert_eq!(answer.header("content-length"), Some(SIZE.to_string().as_str()));
        assert_eq!(answer.body, object()[..at as usize]);
        assert_eq!(answer.broken.unwrap().kind(), ErrorKind::UnexpectedEof);
        assert_recovers(&proxy, Kind::Truncate);
    }
}

#[test]
fn stall_then_rest_or_end_of_the_body() {
    let fixture = Fixture::new();
    for (kind, rest) in [(Kind::Stall, SIZE), (Kind::StallAndEnd, 70_000)] {
        let proxy = proxy_with(&fixture, Fault::from(kind).at(70_000).hold(HOLD));
        let start = Instant::now();
        let answer = get(&proxy.endpoint(), "/bucket/object", None).unwrap();
        assert!(start.elapsed() >= HOLD);
        assert_eq!(answer.body, object()[..rest]);
        assert_eq!(answer.broken.is_some(), kind == Kind::StallAndEnd);
        assert_recovers(&proxy, kind);
    }
}

#[test]
fn slow_start() {
    let fixture = Fixture::new();
    let proxy = proxy_with(&fixture, Fault::from(Kind::SlowStart).hold(HOLD));
    let start = Instant::now();
    assert_eq!(get(&proxy.endpoint(), "/bucket/object", None).unwrap().body, object());
    assert!(start.elapsed() >= HOLD);
    assert_recovers(&proxy, Kind::SlowStart);
}

#[test]
fn no_fault_within_an_answer_without_a_body() {
    let fixture = Fixture::new();
    let rules = [Rule::nth_of(0, "object", Kind::Truncate).times(9)];
    let proxy = fixture.proxy(Plan::script(rules));
    assert_eq!(request(&proxy.endpoint(), "HEAD", "/bucket/object", &[], b"").unwrap().status, 200);
    fixture.server.put("bucket", "empty-object", b"");
    assert!(get(&proxy.endpoint(), "/bucket/empty-object", None).unwrap().broken.is_none());
    assert!(proxy.faults().is_empty());
}

#[test]
fn rules_count_their_matches() {
    let fixture = Fixture::new();
    fixture.server.put("bucket", "other", b"other");
    let plan = Plan::script([
        Rule::nth_of(1, "object", Kind::SlowDown).times(2),
        Rule::nth(0, |request| request.range.is_some(), Kind::InternalError),
    ]);
    let proxy = fixture.proxy(plan);
    let status = |target, range| get(&proxy.endpoint(), target, range).unwrap().status;
    let object = [(); 4].map(|()| status("/bucket/object", None));
    assert_eq!(object, [200, 503, 503, 200]);
    assert_eq!(status("/bucket/other", None), 200);
    assert_eq!(status("/bucket/other", Some("bytes=0-1")), 500);
    assert_eq!(status("/bucket/other", Some("bytes=0-1")), 206);
}

#[test]
fn a_hook_runs_before_the_server_gets_the_request() {
    let fixture = Fixture::new();
    let path = fixture.server.file("bucket", "object");
    let proxy = fixture.proxy(Plan::default().hook(move |request| {
        if request.if_match.is_some() {
            std::fs::write(&path, b"other").unwrap();
        }
        (request.method == "HEAD").then(|| Fault::error(403, "AccessDenied"))
    }));
    let mut client = Client::connect(&proxy.endpoint()).unwrap();
    assert_eq!(client.request("HEAD", "/bucket/object", &[], b"").unwrap().status, 403);
    let first = client.request("GET", "/bucket/object", &[], b"").unwrap();
    let etag = first.header("etag").unwrap();
    let second = client.request("GET", "/bucket/object", &[("if-match", etag)], b"").unwrap();
    assert_eq!((first.status, second.status), (200, 412));
}

#[test]
fn dropping_the_proxy_disconnects_stalled_clients() {
    let fixture = Fixture::new();
    let proxy = proxy_with(&fixture, Fault::from(Kind::Stall).at(5).hold(LONG));
    let endpoint = proxy.endpoint();
    let client = std::thread::spawn(move || get(&endpoint, "/bucket/object", None));
    while proxy.faults().is_empty() {
        std::thread::yield_now();
    }
    drop(proxy);
    assert!(client.join().unwrap().is_ok_and(|answer| answer.broken.is_some()));
}

#[test]
fn a_client_that_disconnects_ends_its_slow_start() {
    let fixture = Fixture::new();
    let proxy = proxy_with(&fixture, Fault::from(Kind::SlowStart).hold(LONG));
    let stream = std::net::TcpStream::connect(proxy.endpoint().trim_start_matches("http://"));
    std::io::Write::write_all(&mut stream.unwrap(), b"GET /bucket/object HTTP/1.1\r\n\r\n")
        .unwrap();
    while proxy.requests() == 0 {
        std::thread::yield_now();
    }
    assert!(proxy.wait_idle(Duration::from_millis(1)));
}
