//! The state of a channel's delivery: its batches.

use std::collections::BTreeMap;

use crate::ledger::Ledger;
use crate::recent::RecentBatches;
use crate::stream_config::StreamConfig;

/// The delivery's knowledge of the channel's batches.
pub(crate) struct DeliveryState {
    /// The position at which the channel begins or began.
    pub(crate) now: StreamConfig,
    /// The position at which it begins without a request of a consumer.
    pub(crate) configured: StreamConfig,
    /// Whether a consumer has made it restart elsewhere.
    pub(crate) is_requested: bool,
    /// The batches of this run with which states are compared.
    pub(crate) recent: RecentBatches,
    /// The reasons to refuse the next consumer of a rank. The last batch of the rank's state came
    /// while no consumer of it was connected, and it differs.
    pub(crate) refusals: BTreeMap<u32, String>,
    /// The ledger of done batches, if checkpoints are kept.
    pub(crate) ledger: Option<Ledger>,
}
