//! A ring in the trace: for each slot the batches that lay in it, and which processes held them. What it hears comes
//! from several threads, in the order of the ring's lock.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use pipemill_ring::host::{BatchEvent, Observer};
use serde_json::{Value, json};

use super::buffer::Buffer;
use super::json::{Apart, Out, Row};

/// What a ring has said.
pub(super) type Heap = Buffer<(Instant, BatchEvent)>;

/// Hears under the ring's lock.
pub(super) struct Ear(pub(super) Arc<Heap>);

impl Observer for Ear {
    fn on_event(&self, event: BatchEvent) {
        self.0.push((Instant::now(), event));
    }
}

/// Makes events of what was heard.
pub(super) struct Slots {
    row: Row,
    channel: String,
    /// What lies in each slot that is in use: the identity and the name.
    slots: HashMap<u32, (String, String)>,
    /// The grants that are held: the same.
    grants: HashMap<u64, (String, String)>,
}

impl Slots {
    pub(super) fn new(row: Row, channel: &str) -> Self {
        let channel = channel.to_owned();
        Self { row, channel, slots: HashMap::new(), grants: HashMap::new() }
    }

    pub(super) fn hear(&mut self, at: u64, event: BatchEvent, out: &mut Out) {
        let (row, channel) = (self.row, &self.channel);
        match event {
            BatchEvent::Filled { slot, batch, epoch, records, bytes } => {
                let names = (format!("{row}-{slot}"), format!("{channel}: slot {slot}"));
                let args =
                    json!({ "batch": batch, "epoch": epoch, "records": records, "bytes": bytes });
                out.apart("b", &apart(row, SLOT, &names), at, &args);
                self.slots.insert(slot, names);
            }
            BatchEvent::Freed { slot } => {
                // Also of a slot that was taken, and not filled.
                if let Some(names) = self.slots.remove(&slot) {
                    out.apart("e", &apart(row, SLOT, &names), at, &nothing());
                }
            }
            BatchEvent::Granted { slot, batch, grant, pid } => {
                let id = format!("{row}-{slot}-{pid}");
                let names = (id, format!("{channel}: slot {slot}, process {pid}"));
                let args = json!({ "batch": batch, "grant": grant, "pid": pid });
                out.apart("b", &apart(row, GRANT, &names), at, &args);
                self.grants.insert(grant, names);
            }
            BatchEvent::Acked { grant } => {
                if let Some(names) = self.grants.get(&grant) {
                    out.apart(
                        "n",
                        &apart(row, GRANT, names),
                        at,
                        &json!({ "grant": grant, "what": "ACK" }),
                    );
                }
            }
            BatchEvent::Released { grant } => self.end_grant(grant, "RELEASE", at, out),
            BatchEvent::Returned { grant } => {
                self.end_grant(grant, "the consumer is gone", at, out)
            }
        }
    }

    /// So many events are missing: whatever is going on ends here.
    pub(super) fn lose(&mut self, events: u64, at: u64, out: &mut Out) {
        out.instant(self.row, "events of slots were dropped", at, &json!({ "events": events }));
        self.close("unknown", at, out);
    }

    /// The run is over.
    pub(super) fn finish(&mut self, at: u64, out: &mut Out) {
        self.close("the run is over", at, out);
    }

    fn close(&mut self, why: &str, at: u64, out: &mut Out) {
        let mut grants: Vec<_> = self.grants.keys().copied().collect();
        grants.sort_unstable();
        grants.into_iter().for_each(|grant| self.end_grant(grant, why, at, out));
        for (_, names) in self.slots.drain() {
            out.apart("e", &apart(self.row, SLOT, &names), at, &json!({ "what": why }));
        }
    }

    fn end_grant(&mut self, grant: u64, what: &str, at: u64, out: &mut Out) {
        if let Some(names) = self.grants.remove(&grant) {
            let args = json!({ "grant": grant, "what": what });
            out.apart("e", &apart(self.row, GRANT, &names), at, &args);
        }
    }
}

const SLOT: &str = "slot";
const GRANT: &str = "grant";

fn apart<'a>(row: Row, category: &'static str, names: &'a (String, String)) -> Apart<'a> {
    Apart { row, category, id: &names.0, name: &names.1 }
}

fn nothing() -> Value {
    Value::Object(<_>::default())
}
