//! The interface for observers of every batch of a ring, such as a trace.

use super::table::{ConsumerId, Table};
use crate::protocol::ToHost;

/// Observes the batches of a ring.
pub trait Observer: Send + Sync {
    /// This is called for each event, in the order of events, while the ring's lock is held. So it
    /// must be quick, and must not call the ring.
    fn on_event(&self, event: BatchEvent);
}

/// An event of a batch. A `slot` at or above the number of slots is a dedicated buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchEvent {
    /// The writer has filled a batch.
    Filled {
        /// The slot of the batch.
        slot: u32,
        /// Number of the batch in the channel, from 0.
        batch: u64,
        /// Number of the epoch, from 0.
        epoch: u32,
        /// Number of records.
        records: u32,
        /// Size in bytes, including header, name and index.
        bytes: u64,
    },
    /// A consumer was granted a batch. The GRANT is sent right after this event.
    Granted {
        /// The slot of the batch.
        slot: u32,
        /// Number of the batch in the channel, from 0.
        batch: u64,
        /// Number of the grant in the channel, from 0.
        grant: u64,
        /// The consumer's process id; 0 if it is in a namespace that the host can't see.
        pid: i32,
    },
    /// The consumer has ACKed a grant: it has processed the batch.
    Acked {
        /// Number of the grant.
        grant: u64,
    },
    /// The consumer has RELEASEd a grant: it holds no view of the batch any more.
    Released {
        /// Number of the grant.
        grant: u64,
    },
    /// The consumer has disconnected while it held this grant.
    Returned {
        /// Number of the grant.
        grant: u64,
    },
    /// The slot is free again.
    Freed {
        /// The slot.
        slot: u32,
    },
}

/// Reports the ACKs and RELEASEs of a message that the table is about to handle.
pub(super) fn report_message(
    observer: &dyn Observer,
    table: &Table,
    id: ConsumerId,
    message: &ToHost<'_>,
) {
    let (grants, releases) = match message {
        ToHost::Ack(grants) => (grants, false),
        ToHost::Release(grants) => (grants, true),
        _ => return,
    };
    let Some(consumer) = table.consumers().iter().find(|consumer| consumer.id == id) else {
        return;
    };
    for grant in grants.iter() {
        // The table ignores the numbers that come after a wrong one.
        let Some(held) = consumer.grants.iter().find(|held| held.grant == grant) else { return };
        if !held.acked {
            observer.on_event(BatchEvent::Acked { grant });
        }
        if releases {
            observer.on_event(BatchEvent::Released { grant });
        }
    }
}

/// Reports the grants of a consumer that is about to be disconnected.
pub(super) fn report_disconnect(observer: &dyn Observer, table: &Table, id: ConsumerId) {
    let consumer = table.consumers().iter().find(|consumer| consumer.id == id);
    for held in consumer.into_iter().flat_map(|consumer| &consumer.grants) {
        observer.on_event(BatchEvent::Returned { grant: held.grant });
    }
}
