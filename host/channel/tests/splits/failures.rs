//! A decoder that dies, hangs or lies in one worker: the channel ends as with one worker, and no
//! record after that place leaves that other workers have decoded.

use std::time::Duration;

use pipemill_channel::RecordOrder;
use pipemill_testing::BAD_PLUGIN;

use crate::host::{self, Bad, Bytes, End, Job, Setup};

/// The object in which the decoder fails.
const FAILS: usize = 3;

fn job(misdeed: &str) -> Job {
    let object = |number: usize| match number {
        FAILS => b"abc%def".to_vec(),
        number => vec![b'a' + number as u8; 5 + number],
    };
    Job {
        decoder: BAD_PLUGIN,
        options: vec![("do", misdeed.to_owned())],
        objects: (0..8).map(|number| Bytes(object(number))).collect(),
        on_error: Bad::Fail,
        max_record: 64 << 20,
        max_errors: 0,
    }
}

#[test]
fn a_decoder_that_fails_in_one_worker_ends_the_channel_there() {
    for (misdeed, says) in [
        ("fall-over-percent", "100 %"),
        ("spin-at-percent", "more than 200ms of CPU time"),
        ("lie-about-percent", "broke its contract"),
    ] {
        let job = job(misdeed);
        let call_timeout = Some(Duration::from_millis(200));
        let one = Setup { call_timeout, ..Setup::in_one_piece() };
        let with_one = host::run(&job, &one);
        let End::Failed { object, message, .. } = &with_one.end else {
            panic!("{misdeed}: {:?}", with_one.end);
        };
        assert_eq!(object.as_deref(), Some("object 3"), "{misdeed}");
        assert!(message.contains(says), "{misdeed}: {message}");
        let before: usize = job.objects[..FAILS].iter().map(|object| object.0.len()).sum();
        assert_eq!(with_one.records.len(), before, "{misdeed}");
        for workers in 2..6 {
            let way = Setup { workers, extra: workers, ..one.clone() };
            let with_more = host::run(&job, &way);
            assert_eq!(with_one.difference(&with_more), None, "{misdeed}, {workers} workers");
            let any = host::run(&job, &Setup { order: RecordOrder::Any, ..way });
            assert_eq!(any.end, with_one.end, "{misdeed}, {workers} workers in any order");
            assert!(any.records.iter().all(|record| record.object != "object 3"), "{misdeed}");
        }
    }
}
