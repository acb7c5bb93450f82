//! Keys of `[channel.ring]` and `[channel.limits]`.

use super::*;
use crate::key::{Number, Table, Unit};

/// The largest ring in bytes: `slots * slot_size`.
pub(crate) const MAX_RING_BYTES: u64 = 256 * GIB;

/// The size of a slot is a multiple of this, in bytes.
pub(crate) const SLOT_STEP: u64 = 4 * KIB;

/// A ring needs this many slots more than one consumer's credits: one to fill and one that is
/// ready.
pub(crate) const SPARE_SLOTS: u64 = 2;

/// A decoder needs this many bytes of memory more than twice the largest record.
pub(crate) const MEMORY_SPARE: u64 = 16 * MIB;

pub(crate) static SLOTS: Number<u64> = Number::new("slots", Unit::Count, (4, 4_096), 16).doc(
    "The number of slots: at least `credits` + 2. Then one slot can be filled and one can wait \
     while a consumer holds the others.",
);

pub(crate) static SLOT_SIZE: Number<u64> =
    Number::new("slot_size", Unit::Size, (64 * KIB, GIB), 4 * MIB).doc(
        "The size of one slot, a multiple of 4KiB. If it is left out, and the channel has \
             `batch`, slots are [larger](#slots-that-fit-a-batch) where a batch would not fit.",
    );

pub(crate) static CREDITS: Number<u64> = Number::new("credits", Unit::Count, (1, 4_094), 4).doc(
    "How many batches a consumer may hold at once, if it does not ask for another number. With 2, \
     it can read one while the next is on its way. With 4, it seldom waits for the host: small \
     batches come twice as fast. If it is left out and there are fewer than 6 slots, it is `slots` \
     - 2.",
);

pub(crate) static LINGER: Number<u64> = Number::new("linger", Unit::Time, (0, 60 * SECOND), 10)
    .doc(
        "How long a batch that has records waits for more while the source has nothing ready. \
         Without effect if the channel has `batch`. Then it is sent as it is. `\"0ms\"` sends it \
         at once.",
    );

pub(crate) static MEMORY: Number<u64> =
    Number::new("memory", Unit::Size, (16 * MIB, 4 * GIB), 512 * MIB).doc(
        "The decoder's linear memory: at least 2 × `max_record` + 16MiB, because it may have to \
         hold a record twice.",
    );

pub(crate) static CALL_TIMEOUT: Number<u64> =
    Number::new("call_timeout", Unit::Time, (10, HOUR), 10 * SECOND).doc(
        "The CPU time of one call. Time in which other processes have the CPU does not count.",
    );

pub(crate) static OUTPUT: Number<&str> = Number::new(
    "output",
    Unit::Size,
    (KIB, 4 * GIB),
    "4 × the larger of `max_record` and `ring.slot_size`",
)
.doc(
    "The bytes that one call may produce, without those that it only refers to in the input: at \
     least `max_record`. Each field of a record counts 8 bytes more, but for one field for each \
     byte of the input that the call sees, of at most 1,048,576.",
);

pub(crate) static BATCHES: Number<&str> = Number::new(
    "batches",
    Unit::Size,
    (MIB, 16_384 * GIB),
    "the ring's slots, the `window` of `shuffle`, and `\"1GiB\"`; less if the container has less",
)
.doc(
    "The memory of the channel's batches: the ring's slots, batches that fit into no slot, their \
     indexes, and the window of `shuffle`. At least as much as slots and window take. It is \
     counted before it is allocated. Where a batch needs more, the host waits for batches that \
     consumers hold; if that does not help, the channel ends with an error that names this key. A \
     mix has this limit alone.",
);

pub(crate) static RING_TABLE: Table =
    Table { name: "[channel.ring]", groups: &[&[&SLOTS, &SLOT_SIZE, &CREDITS, &LINGER]] };

pub(crate) static LIMITS_TABLE: Table =
    Table { name: "[channel.limits]", groups: &[&[&MEMORY, &CALL_TIMEOUT, &OUTPUT, &BATCHES]] };
