//! Latency and throttle. Only that things take at least so long: a slow machine takes longer.

use std::time::{Duration, Instant};

use pipemill_s3_test::client::Client;
use pipemill_s3_test::proxy::Plan;

use crate::{Place, object};

#[test]
fn no_answer_comes_before_the_latency() {
    let place = Place::new();
    let latency = Duration::from_millis(50);
    let proxy = place.proxy(Plan { latency, ..Plan::default() });
    let mut client = Client::connect(&proxy.endpoint()).unwrap();
    let start = Instant::now();
    for _ in 0..4 {
        client.request("GET", "/bucket/object", &[], b"").unwrap();
    }
    assert!(start.elapsed() >= 4 * latency);
}

#[test]
fn no_connection_is_faster_than_the_throttle() {
    let place = Place::new();
    let throttle = Some(4 << 20);
    let proxy = place.proxy(Plan { throttle, ..Plan::default() });
    let mut client = Client::connect(&proxy.endpoint()).unwrap();
    let start = Instant::now();
    for _ in 0..2 {
        assert_eq!(client.request("GET", "/bucket/object", &[], b"").unwrap().body, object());
    }
    // Half a second for two of four mebibytes; but the last piece is not waited for.
    assert!(start.elapsed() >= Duration::from_millis(400));
}
