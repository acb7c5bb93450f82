//! The events that an observer of a ring gets.

use std::sync::{Arc, Mutex};

use pipemill_ring::host::{BatchEvent, Observer};
use pipemill_ring::reader::Event;

use crate::raw_consumer::Raw;
use crate::setup::{RECORDS, config, grant, host};

struct Recorder(Arc<Mutex<Vec<BatchEvent>>>);

impl Observer for Recorder {
    fn on_event(&self, event: BatchEvent) {
        self.0.lock().unwrap().push(event);
    }
}

#[test]
fn an_observer_gets_every_event_of_a_batch_whose_first_consumer_hangs_up() {
    let host = host(config());
    let events = Arc::new(Mutex::new(Vec::new()));
    host.ring.set_observer(Box::new(Recorder(events.clone())));
    let (first, ..) = Raw::welcomed(&host.socket, 2);
    grant(&host.ring, 0, 0, RECORDS).unwrap();
    first.grant();
    drop(first);
    host.wait_until("without the first consumer", |status| status.consumers.is_empty());
    grant(&host.ring, 0, RECORDS, RECORDS).unwrap();
    let mut reader = host.reader(2);
    host.ring.end_stream();
    while let Event::Batch(batch) = reader.next().unwrap() {
        batch.ack();
        drop(batch);
    }
    host.wait_until("free", |status| status.free == 8);
    let events = events.lock().unwrap();
    let pid = std::process::id() as i32;
    let BatchEvent::Filled { slot, batch: 0, epoch: 0, records, .. } = events[0] else {
        panic!("{events:?}")
    };
    assert_eq!(u64::from(records), RECORDS);
    assert_eq!(events[1], BatchEvent::Granted { slot, batch: 0, grant: 0, pid });
    assert_eq!(events[2], BatchEvent::Returned { grant: 0 });
    // Each later grant is ACKed and then RELEASEd, each slot is filled once and freed once.
    for grant in [1, 2] {
        let of_grant = events.iter().filter(|event| match event {
            BatchEvent::Granted { grant: of, .. }
            | BatchEvent::Acked { grant: of }
            | BatchEvent::Released { grant: of }
            | BatchEvent::Returned { grant: of } => *of == grant,
            BatchEvent::Filled { .. } | BatchEvent::Freed { .. } => false,
        });
        let of_grant: Vec<_> = of_grant.collect();
        let [BatchEvent::Granted { .. }, BatchEvent::Acked { .. }, BatchEvent::Released { .. }] =
            of_grant[..]
        else {
            panic!("{events:?}")
        };
    }
    let count = |of: fn(&BatchEvent) -> bool| events.iter().filter(|event| of(event)).count();
    assert_eq!(count(|event| matches!(event, BatchEvent::Granted { .. })), 3);
    assert_eq!(count(|event| matches!(event, BatchEvent::Filled { .. })), 2);
    assert_eq!(count(|event| matches!(event, BatchEvent::Freed { .. })), 2);
}
