//! What the delivery of a channel knows of its batches.

use crate::ledger::Ledger;
use crate::recent::RecentBatches;
use crate::stream_config::StreamConfig;

/// What is known of the channel's batches.
pub(crate) struct DeliveryState {
    /// Where the channel begins, or has begun.
    pub(crate) now: StreamConfig,
    /// Where it begins without a request of a consumer.
    pub(crate) configured: StreamConfig,
    /// A consumer has made it restart elsewhere.
    pub(crate) is_requested: bool,
    /// The batches of this run with which states are compared.
    pub(crate) recent: RecentBatches,
    /// What is done, where somebody asks for it.
    pub(crate) ledger: Option<Ledger>,
}
