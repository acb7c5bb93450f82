//! Whoever stops: nothing is asked for any more, and what was asked for is let go.

use pipemill_source::{Source, SourceEvent};
use pipemill_testing::PATIENCE;
use pipemill_testing::bucket::{Bucket, until_asked, until_quiet};

use crate::reading::{settings, source};

#[test]
fn dropping_a_source_ends_its_requests() {
    let bucket = Bucket::with([("one", vec![b'\n'; 64 << 20])]);
    let proxy = bucket.slow_proxy();
    let mut settings = settings(&proxy.endpoint(), "one");
    settings.part_size = 1 << 20;
    let source = source(&settings);
    until_asked(&proxy);
    drop(source);
    until_quiet(&proxy);
}

#[test]
fn an_object_that_is_left_makes_room_for_the_next() {
    let bucket = Bucket::with([("one", vec![1; 8 << 20]), ("two", vec![2; 100])]);
    let proxy = bucket.slow_proxy();
    let mut settings = settings(&proxy.endpoint(), "");
    settings.part_size = 1 << 20;
    let mut source = source(&settings);
    let Ok(SourceEvent::Object(object)) = source.next() else { panic!("no object") };
    until_asked(&proxy);
    drop(object);
    // Its parts are let go, and the next one has its turn.
    let Ok(SourceEvent::Object(mut object)) = source.next() else { panic!("no second object") };
    let mut buffer = [0; 200];
    assert!(object.input.read(&mut buffer, Some(PATIENCE)).is_ok());
    assert_eq!(buffer[0], 2);
    source.end_epoch();
    assert!(matches!(source.next(), Ok(SourceEvent::EpochEnd(0))));
    assert!(matches!(source.next(), Ok(SourceEvent::End)));
}
