//! Amazon SageMaker's contract with a training container: the files that describe the job, and the
//! file that says why the job failed.
//! <https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-running-container.html>
//!
//! - `channels`: derives a channel's source and decoder from the platform's description of the
//!   channel.
//! - `environment`: the `SM_…` variables of SageMaker's training toolkit, for scripts that were
//!   written for it.
//! - `failure`: `output/failure`: the reason why the job failed.
//! - `hyperparameters`: `input/config/hyperparameters.json`: a flat object whose values are
//!   strings.
//! - `input_data_config`: `input/config/inputdataconfig.json`: the job's channels.
//! - `platform`: a job of SageMaker: reads the files in `input/config` that describe it.
//! - `resource_config`: `input/config/resourceconfig.json`: the job's hosts.

mod channels;
mod environment;
mod failure;
mod hyperparameters;
mod input_data_config;
mod platform;
mod resource_config;

use std::path::Path;

pub use input_data_config::{InputChannel, InputMode, input_data_config};
pub use platform::{Platform, base};

use crate::Presets;

/// Removes the reason why an earlier run failed. Call it when a run starts.
pub fn clear_failure(base: &Path) {
    failure::clear(base);
}

/// Writes the reason why the job failed for the platform, unless the command has written one.
pub fn report_failure(base: &Path, why: &str) {
    failure::report(base, why);
}

/// The platform's channels that its files describe, and the rank of this machine.
pub fn presets(platform: &Platform) -> Presets {
    let channels = platform
        .channels
        .iter()
        .map(|(name, channel)| (name.clone(), channels::preset(&platform.base, name, channel)));
    let rank = platform.resources.as_ref().map(|resources| resources.rank);
    Presets { channels: channels.collect(), rank }
}

/// The variables that scripts for the platform's training toolkit expect, without those that are
/// set already.
pub fn environment(platform: &Platform) -> Vec<(String, String)> {
    environment::environment(platform)
}
