//! How the batches of a channel are divided among its consumers.

use serde::{Deserialize, Serialize};

/// How the batches of a channel are divided among its consumers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Each batch goes to one consumer.
    #[default]
    Share,
    /// Each batch goes to every consumer that is connected when the batch is first granted.
    Broadcast,
    /// Each consumer is a rank: batch k goes to the rank k modulo the number of ranks. All ranks
    /// get equally many batches of each epoch.
    Rank,
}
