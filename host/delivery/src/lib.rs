//! Delivers the batches of a channel: which consumer gets which, where a channel resumes after a
//! restart, and which batches are done. docs/delivery.md describes what consumers see of it.
//!
//! `ring_sink` is the sink of a channel that writes into a ring, and `rounds` the batches that wait
//! for the rest of their round of all ranks. `admission` admits consumers, and knows what is done
//! (`delivery_state`): `placement` decides where the channel restarts for one of them, `recent`
//! compares states with batches as they are filled, `ledger` records what is done. `stream_config`
//! says where a channel begins, `restart_policy` what consumers may request, `settings` what must
//! not have changed. `saved_state` is a state as programs keep it, `resume_file` a file of them,
//! `checkpoints` and `checkpoint_file` write such a file. `regroup` resumes with another number of
//! ranks. `remedies` gives the advice for refusals of the ring.

#![forbid(unsafe_code)]

mod admission;
mod checkpoint_file;
mod checkpoints;
mod delivery_state;
mod ledger;
mod placement;
mod recent;
mod regroup;
mod remedies;
mod restart_policy;
mod resume_file;
mod ring_sink;
mod rounds;
mod saved_state;
mod settings;
mod stream_config;

pub use admission::ChannelDelivery;
pub use checkpoints::{Checkpoints, LockedFiles};
pub use ledger::Checkpoint;
pub use recent::state_bytes;
pub use restart_policy::{ConfiguredPolicy, Match, RestartPolicy, configured, resume};
pub use resume_file::{check_decoders, resume_from};
pub use ring_sink::{RingSink, error_report};
pub use settings::DecoderIdentity;
pub use stream_config::StreamConfig;
