//! Amazon SageMaker's contract with a training container: what it tells of the job, in the files of
//! `input/config`, and what it wants to know.
//! <https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-running-container.html>

mod channels;
mod environment;
mod failure;
mod hyperparameters;
mod input_data_config;
mod resource_config;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

pub use input_data_config::{InputChannel, InputMode, input_data_config};
pub use resource_config::{Resources, resource_config};

use crate::config::Presets;

/// Where everything lies, if the platform does not say otherwise.
const BASE: &str = "/opt/ml";
/// The folder of the files that describe the job.
const CONFIG: &str = "input/config";
/// The variable that says otherwise.
const BASE_VARIABLE: &str = "SAGEMAKER_BASE_DIR";

/// A job of the platform, as its files describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Platform {
    base: PathBuf,
    channels: BTreeMap<String, InputChannel>,
    resources: Option<Resources>,
    hyperparameters: BTreeMap<String, String>,
}

/// The job's folder; none outside of the platform.
pub fn base() -> Option<PathBuf> {
    let base = std::env::var_os(BASE_VARIABLE).filter(|base| !base.is_empty());
    let base = base.map_or_else(|| PathBuf::from(BASE), PathBuf::from);
    base.join(CONFIG).is_dir().then_some(base)
}

/// Tells the platform why the job failed, unless the command has done so.
pub fn report_failure(base: &Path, why: &str) {
    failure::report(base, why);
}

impl Platform {
    /// The job whose folder this is.
    ///
    /// # Errors
    /// One of its files is not as it should be: which, and what is wrong.
    pub fn read(base: PathBuf) -> Result<Self, String> {
        let folder = base.join(CONFIG);
        let channels = read(&folder.join("inputdataconfig.json"), input_data_config)?;
        let resources = read(&folder.join("resourceconfig.json"), resource_config)?;
        let hyperparameters =
            read(&folder.join("hyperparameters.json"), hyperparameters::hyperparameters)?;
        Ok(Self {
            base,
            channels: channels.unwrap_or_default(),
            resources,
            hyperparameters: hyperparameters.unwrap_or_default(),
        })
    }

    /// Its channels, as far as the platform describes them, and its rank.
    pub fn presets(&self) -> Presets {
        let preset = |(name, channel): (&String, &InputChannel)| {
            (name.clone(), channels::preset(&self.base, name, channel))
        };
        let rank = self.resources.as_ref().map(|resources| resources.rank);
        Presets { channels: self.channels.iter().map(preset).collect(), rank }
    }

    /// The file that describes the channels, for messages.
    pub fn described_in(&self) -> PathBuf {
        self.base.join(CONFIG).join("inputdataconfig.json")
    }

    /// What scripts for the platform's training toolkit find in their environment.
    pub fn environment(&self) -> Vec<(String, String)> {
        environment::environment(self)
    }
}

/// A file that may be missing.
fn read<T>(path: &Path, parse: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, String> {
    let wrong = |why: String| format!("{}: {why}", path.display());
    match std::fs::read_to_string(path) {
        Ok(text) => parse(&text).map(Some).map_err(wrong),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(wrong(format!("can't read it: {error}"))),
    }
}
