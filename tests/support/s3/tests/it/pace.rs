//! Tests of latency and throttle. They only check lower bounds, because a slow machine takes
//! longer.

use std::time::{Duration, Instant};

use pipemill_s3_test::client::Client;
use pipemill_s3_test::proxy::Plan;

use crate::{Fixture, object};

#[test]
fn no_answer_comes_before_the_latency() {
    let fixture = Fixture::new();
    let latency = Duration::from_millis(50);
    let proxy = fixture.proxy(Plan { latency, ..Plan::default() });
    let mut client = Client::connect(&proxy.endpoint()).unwrap();
    let start = Instant::now();
    for _ in 0..4 {
        client.request("GET", "/bucket/object", &[], b"").unwrap();
    }
    assert!(start.elapsed() >= 4 * latency);
}

#[test]
fn no_connection_is_faster_than_the_throttle() {
    let fixture = Fixture::new();
    let throttle = Some(4 << 20);
    let proxy = fixture.proxy(Plan { throttle, ..Plan::default() });
    let mut client = Client::connect(&proxy.endpoint()).unwrap();
    let start = Instant::now();
    for _ in 0..2 {
        assert_eq!(client.request("GET", "/bucket/object", &[], b"").unwrap().body, object());
    }
    // 2 MiB at 4 MiB/s take 0.5 s, but the proxy does not wait after the last piece.
    assert!(start.elapsed() >= Duration::from_millis(400));
}
