//! What a witness hears: all that happens to a batch, in order.

use std::sync::{Arc, Mutex};

use pipemill_ring::host::{Seen, Witness};

use crate::setup::{RECORDS, config, grant, host, next_batch};

struct List(Arc<Mutex<Vec<Seen>>>);

impl Witness for List {
    fn saw(&self, event: Seen) {
        self.0.lock().unwrap().push(event);
    }
}

#[test]
fn hears_the_life_of_a_batch_whose_first_consumer_goes() {
    let host = host(config());
    let heard = Arc::new(Mutex::new(Vec::new()));
    host.ring.show(Box::new(List(heard.clone())));
    let mut reader = host.reader(2);
    grant(&host.ring, 0, 0, RECORDS).unwrap();
    let batch = next_batch(&mut reader);
    drop((batch, reader));
    host.wait_until("returned or freed", |status| status.consumers.is_empty());
    grant(&host.ring, 0, RECORDS, RECORDS).unwrap();
    let mut reader = host.reader(2);
    host.ring.end_stream();
    while let pipemill_ring::reader::Event::Batch(batch) = reader.next().unwrap() {
        batch.ack();
        drop(batch);
    }
    assert!(host.ring.wait_drained(None));
    host.wait_until("freed", |status| status.free == 8);
    let heard = heard.lock().unwrap();
    let pid = std::process::id() as i32;
    let Seen::Filled { slot, batch: 0, epoch: 0, records, .. } = heard[0] else {
        panic!("{heard:?}")
    };
    assert_eq!(u64::from(records), RECORDS);
    assert_eq!(heard[1], Seen::Granted { slot, batch: 0, grant: 0, pid });
    // Every grant ends once, and what was filled is freed in the end.
    let count = |of: fn(&Seen) -> bool| heard.iter().filter(|seen| of(seen)).count();
    let granted = count(|seen| matches!(seen, Seen::Granted { .. }));
    let over = count(|seen| matches!(seen, Seen::Released { .. } | Seen::Returned { .. }));
    assert_eq!(granted, over, "{heard:?}");
    assert_eq!(count(|seen| matches!(seen, Seen::Filled { .. })), 2);
    assert_eq!(count(|seen| matches!(seen, Seen::Freed { .. })), 2);
    assert_eq!(count(|seen| matches!(seen, Seen::Acked { .. })), 2, "{heard:?}");
}
