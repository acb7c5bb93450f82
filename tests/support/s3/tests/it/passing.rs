//! Tests that a proxy without faults changes nothing.

use std::io::Write;
use std::net::TcpListener;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use pipemill_s3_test::client::{Client, get};
use pipemill_s3_test::http::Reader;
use pipemill_s3_test::proxy::{Plan, Proxy};
use pipemill_s3_test::servers::S3Server;

use crate::{Fixture, SIZE, object};

#[test]
fn requests_and_answers_are_passed_on_unchanged() {
    let fixture = Fixture::new();
    let proxy = fixture.proxy(Plan::default());
    let mut direct = Client::connect(&fixture.server.endpoint()).unwrap();
    let mut through = Client::connect(&proxy.endpoint()).unwrap();
    let requests = [
        ("GET", "/bucket/object", 0),
        ("GET", "/bucket/object", 1),
        ("HEAD", "/bucket/object", 0),
        ("GET", "/bucket/none", 0),
        ("HEAD", "/bucket/none", 0),
        ("GET", "/bucket?list-type=2", 0),
        ("PUT", "/bucket/other", 0),
    ];
    for (method, target, ranges) in requests {
        let headers = &[("range", "bytes=100-300000")][..ranges];
        let body: &[u8] = if method == "PUT" { b"a body" } else { b"" };
        let one = direct.request(method, target, headers, body).unwrap();
        let other = through.request(method, target, headers, body).unwrap();
        assert_eq!((one.status, one.body), (other.status, other.body), "{method} {target}");
        assert!(other.broken.is_none());
        let names = |headers: &[(String, String)]| -> Vec<String> {
            headers.iter().map(|(name, _)| name.clone()).collect()
        };
        assert_eq!(names(&one.headers), names(&other.headers));
    }
    assert_eq!(proxy.requests(), 7);
    assert_eq!(proxy.connections(), 1);
    assert!(proxy.faults().is_empty());
}

#[test]
fn the_log_has_requests_and_answers() {
    let fixture = Fixture::new();
    let proxy = fixture.proxy(Plan::default());
    get(&proxy.endpoint(), "/bucket/object", Some("bytes=0-9")).unwrap();
    get(&proxy.endpoint(), "/bucket/none?x=y", None).unwrap();
    assert!(proxy.wait_idle(Duration::from_millis(1)));
    let log = proxy.log();
    assert_eq!(log[0].request.target, "/bucket/object");
    assert_eq!(log[0].request.range.as_deref(), Some("bytes=0-9"));
    assert_eq!((log[0].status, log[0].body), (Some(206), 10));
    assert_eq!((log[1].request.target.as_str(), log[1].status), ("/bucket/none?x=y", Some(404)));
    assert!(log[0].when < log[1].when && log.iter().all(|entry| entry.elapsed.is_some()));
}

#[test]
fn concurrent_requests_are_counted() {
    let fixture = Fixture::new();
    // None goes on before all are there.
    let all = Barrier::new(16);
    let proxy = fixture.proxy(Plan::default().hook(move |_| {
        all.wait();
        None
    }));
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let got = get(&proxy.endpoint(), "/bucket/object", None).unwrap();
                assert_eq!(got.body.len(), SIZE);
            });
        }
    });
    assert!(proxy.wait_idle(Duration::from_millis(1)));
    assert_eq!((proxy.requests(), proxy.in_flight()), (16, 0));
    assert_eq!(proxy.most_in_flight(), 16);
}

#[test]
fn the_end_of_the_server_ends_the_connection() {
    let fixture = Fixture::new();
    let proxy = fixture.proxy(Plan::default());
    let mut client = Client::connect(&proxy.endpoint()).unwrap();
    assert_eq!(client.request("GET", "/bucket/object", &[], b"").unwrap().body, object());
    drop(fixture);
    assert!(client.request("GET", "/bucket/object", &[], b"").is_err());
}

#[test]
fn a_connection_that_the_server_closed_while_idle_is_replaced() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        for _ in 0..3 {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = Reader::new(Arc::new(stream), 4096);
            reader.request().unwrap().expect("a request");
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
            reader.stream().write_all(answer).unwrap();
        }
    });
    let proxy = Proxy::start(&endpoint, Plan::default()).unwrap();
    let mut client = Client::connect(&proxy.endpoint()).unwrap();
    for _ in 0..3 {
        assert_eq!(client.request("GET", "/", &[], b"").unwrap().text(), "ok");
    }
    assert_eq!(proxy.connections(), 1);
    server.join().unwrap();
}

#[test]
fn chunked_bodies_are_passed_on() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = Reader::new(Arc::new(stream), 4096);
        while reader.request().unwrap().is_some() {
            let answer = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
                           3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n";
            reader.stream().write_all(answer).unwrap();
        }
    });
    let proxy = Proxy::start(&endpoint, Plan::default()).unwrap();
    let mut client = Client::connect(&proxy.endpoint()).unwrap();
    for _ in 0..2 {
        assert_eq!(client.request("GET", "/", &[], b"").unwrap().text(), "abc0123456789");
    }
    assert!(proxy.wait_idle(Duration::from_millis(1)));
    assert_eq!(proxy.log()[0].body, 13);
    drop(client);
    drop(proxy);
    server.join().unwrap();
}
