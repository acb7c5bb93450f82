//! Who hears of all that happens to a ring's batches, as a trace does.

use super::table::{ConsumerId, Table};
use crate::protocol::ToHost;

/// Hears of a ring's batches. Called with the ring's lock held, in the order in which things happen, so it must be
/// quick and must not ask the ring anything.
pub trait Witness: Send + Sync {
    /// This has happened.
    fn saw(&self, event: Seen);
}

/// What happens to batches. A slot's number from the number of slots on is that of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The writer handed over a batch.
    Filled {
        /// Where it lies.
        slot: u32,
        /// Its number.
        batch: u64,
        /// From 0.
        epoch: u32,
        /// How many it has.
        records: u32,
        /// Bytes of it, header, name and index included.
        bytes: u64,
    },
    /// A consumer was granted a batch.
    Granted {
        /// Where it lies.
        slot: u32,
        /// Its number.
        batch: u64,
        /// The grant's number.
        grant: u64,
        /// The consumer's process; 0 where it is in a namespace that the host can't see.
        pid: i32,
    },
    /// The consumer is done with what this grant gave it.
    Acked {
        /// The grant's number.
        grant: u64,
    },
    /// The consumer looks at it no more.
    Released {
        /// The grant's number.
        grant: u64,
    },
    /// The consumer is gone, and has not released it.
    Returned {
        /// The grant's number.
        grant: u64,
    },
    /// Nobody needs what lies there any more.
    Freed {
        /// Where it lay.
        slot: u32,
    },
}

/// Tells of what a consumer's message is about to do.
pub(super) fn tell_of_message(
    witness: &dyn Witness,
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
        // What comes behind a wrong number is not done.
        let Some(held) = consumer.grants.iter().find(|held| held.grant == grant) else { return };
        if !held.acked {
            witness.saw(Seen::Acked { grant });
        }
        if releases {
            witness.saw(Seen::Released { grant });
        }
    }
}

/// Tells of what a consumer holds that is about to go.
pub(super) fn tell_of_end(witness: &dyn Witness, table: &Table, id: ConsumerId) {
    let consumer = table.consumers().iter().find(|consumer| consumer.id == id);
    for held in consumer.into_iter().flat_map(|consumer| &consumer.grants) {
        witness.saw(Seen::Returned { grant: held.grant });
    }
}
