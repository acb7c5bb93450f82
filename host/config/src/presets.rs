//! The description of the channels by a platform such as SageMaker. It applies to every key that
//! the file leaves out.

use std::collections::BTreeMap;

use super::model::{DecoderRef, Source};

/// The number of this process, from 0, and the number of processes that share the work.
pub type Rank = (u32, u32);

/// One channel, as the platform describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preset {
    /// The source of the channel's bytes.
    pub source: Source,
    /// The channel's decoder. The error says why the platform's description does not name one.
    pub decoder: Result<DecoderRef, String>,
}

/// All that the platform describes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Presets {
    /// The channels by name.
    pub channels: BTreeMap<String, Preset>,
    /// The rank of this machine among the job's machines.
    pub rank: Option<Rank>,
}
