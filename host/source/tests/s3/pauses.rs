//! A consumer that takes its time.

use std::time::Duration;

use pipemill_s3_test::proxy::Plan;
use pipemill_source::{ReadOutcome, Source, SourceEvent};
use pipemill_testing::PATIENCE;
use pipemill_testing::bucket::Bucket;

use crate::reading::{bytes, settings, source};

/// Longer than any limit on waiting of these settings.
const PAUSE: Duration = Duration::from_secs(4);
/// These limits: far longer than any answer takes.
const LIMIT: Duration = Duration::from_secs(3);

#[test]
fn a_consumer_may_pause_for_longer_than_any_timeout() {
    let object = bytes(1, 3 << 20);
    let bucket = Bucket::with([("one", &object)]);
    // So slow that the pauses fall into bodies.
    let proxy = bucket.proxy(Plan { throttle: Some(4 << 20), ..Plan::default() });
    let mut settings = settings(&proxy.endpoint(), "one");
    settings.part_size = 1 << 20;
    settings.stall_timeout = LIMIT;
    settings.retry_timeout = LIMIT;
    let mut source = source(&settings);
    let Ok(SourceEvent::Object(mut object_came)) = source.next() else { panic!("no object") };
    let (mut received, mut buffer) = (Vec::new(), vec![0; 300_000]);
    for round in 0.. {
        if round == 1 || round == 5 {
            std::thread::sleep(PAUSE);
        }
        match object_came.input.read(&mut buffer, Some(PATIENCE)).expect("nothing fails") {
            ReadOutcome::Bytes(count) => received.extend_from_slice(&buffer[..count]),
            ReadOutcome::End => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(received == object);
    // Nothing had to be asked for twice.
    assert_eq!(proxy.requests(), 1 + 3, "{:#?}", proxy.log());
}

#[test]
fn no_more_than_the_budget_is_fetched_ahead_of_a_paused_consumer() {
    let bucket = Bucket::with([("one", vec![7; 20 << 20])]);
    let proxy = bucket.proxy(Plan::default());
    let mut settings = settings(&proxy.endpoint(), "one");
    settings.part_size = 256 << 10;
    let mut source = source(&settings);
    let Ok(SourceEvent::Object(mut object)) = source.next() else { panic!("no object") };
    let got = object.input.read(&mut [0; 1], Some(PATIENCE));
    assert!(matches!(got, Ok(ReadOutcome::Bytes(1))));
    assert!(proxy.wait_idle(Duration::from_millis(200)));
    let fetched: u64 = proxy.log().iter().map(|entry| entry.body).sum();
    assert!(fetched <= crate::reading::BUDGET + (256 << 10), "{fetched} bytes ahead of the reader");
}
