//! A ring in the trace: the batches of each slot, and the processes that they were granted to. The
//! ring's events come from several threads, in the order of the ring's lock.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use pipemill_ring::host::{BatchEvent, Observer};
use serde_json::{Value, json};

use super::buffer::Buffer;
use super::json::{AsyncEvent, Row, TraceFile};

/// Events of a ring, each with its time.
pub(super) type BatchBuffer = Buffer<(Instant, BatchEvent)>;

/// Observer of a ring that keeps its events for the writer. It is called under the ring's lock.
pub(super) struct BatchRecorder(pub(super) Arc<BatchBuffer>);

impl Observer for BatchRecorder {
    fn on_event(&self, event: BatchEvent) {
        self.0.push((Instant::now(), event));
    }
}

/// Makes trace events of a ring's events.
pub(super) struct SlotTrack {
    row: Row,
    channel: String,
    /// The id and the name of the trace event of each slot that holds a batch.
    slots: HashMap<u32, (String, String)>,
    /// The id and the name of the trace event of each grant that is held.
    grants: HashMap<u64, (String, String)>,
}

impl SlotTrack {
    pub(super) fn new(row: Row, channel: &str) -> Self {
        let channel = channel.to_owned();
        Self { row, channel, slots: HashMap::new(), grants: HashMap::new() }
    }

    pub(super) fn write(&mut self, at: u64, event: BatchEvent, out: &mut TraceFile) {
        let (row, channel) = (self.row, &self.channel);
        match event {
            BatchEvent::Filled { slot, batch, epoch, records, bytes } => {
                let names = (format!("{row}-{slot}"), format!("{channel}: slot {slot}"));
                let args =
                    json!({ "batch": batch, "epoch": epoch, "records": records, "bytes": bytes });
                out.async_event("b", &async_event(row, SLOT, &names), at, &args);
                self.slots.insert(slot, names);
            }
            BatchEvent::Freed { slot } => {
                // A slot that was taken but not filled has no event.
                if let Some(names) = self.slots.remove(&slot) {
                    out.async_event("e", &async_event(row, SLOT, &names), at, &no_args());
                }
            }
            BatchEvent::Granted { slot, batch, grant, pid } => {
                let id = format!("{row}-{slot}-{pid}");
                let names = (id, format!("{channel}: slot {slot}, process {pid}"));
                let args = json!({ "batch": batch, "grant": grant, "pid": pid });
                out.async_event("b", &async_event(row, GRANT, &names), at, &args);
                self.grants.insert(grant, names);
            }
            BatchEvent::Acked { grant } => {
                if let Some(names) = self.grants.get(&grant) {
                    out.async_event(
                        "n",
                        &async_event(row, GRANT, names),
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

    /// Writes that this number of events was dropped. All events that are open end here.
    pub(super) fn write_gap(&mut self, events: u64, at: u64, out: &mut TraceFile) {
        out.instant(self.row, "events of slots were dropped", at, &json!({ "events": events }));
        self.close("unknown", at, out);
    }

    /// Ends all events that are open, at the end of the run.
    pub(super) fn finish(&mut self, at: u64, out: &mut TraceFile) {
        self.close("the run is over", at, out);
    }

    fn close(&mut self, why: &str, at: u64, out: &mut TraceFile) {
        let mut grants: Vec<_> = self.grants.keys().copied().collect();
        grants.sort_unstable();
        grants.into_iter().for_each(|grant| self.end_grant(grant, why, at, out));
        for (_, names) in self.slots.drain() {
            out.async_event("e", &async_event(self.row, SLOT, &names), at, &json!({ "what": why }));
        }
    }

    fn end_grant(&mut self, grant: u64, what: &str, at: u64, out: &mut TraceFile) {
        if let Some(names) = self.grants.remove(&grant) {
            let args = json!({ "grant": grant, "what": what });
            out.async_event("e", &async_event(self.row, GRANT, &names), at, &args);
        }
    }
}

const SLOT: &str = "slot";
const GRANT: &str = "grant";

fn async_event<'a>(
    row: Row,
    category: &'static str,
    names: &'a (String, String),
) -> AsyncEvent<'a> {
    AsyncEvent { row, category, id: &names.0, name: &names.1 }
}

fn no_args() -> Value {
    Value::Object(<_>::default())
}
