//! A job of SageMaker: reads the files in `input/config` that describe it.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::hyperparameters::hyperparameters;
use super::input_data_config::{InputChannel, input_data_config};
use super::resource_config::{Resources, resource_config};

/// The job's folder, if [`BASE_VARIABLE`] is not set.
const BASE: &str = "/opt/ml";
/// The folder of the files that describe the job, in the job's folder.
const CONFIG: &str = "input/config";
/// The file that describes the channels, in that folder.
const CHANNELS: &str = "inputdataconfig.json";
/// The variable for the job's folder.
const BASE_VARIABLE: &str = "SAGEMAKER_BASE_DIR";

/// The job as its files describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Platform {
    /// The job's folder.
    pub(super) base: PathBuf,
    /// Whether a file describes the channels.
    pub(super) describes_channels: bool,
    /// The channels by name.
    pub(super) channels: BTreeMap<String, InputChannel>,
    /// The job's hosts, if the file exists.
    pub(super) resources: Option<Resources>,
    /// Hyperparameters: names and values as text.
    pub(super) hyperparameters: BTreeMap<String, String>,
}

/// The job's folder, or `None` if the process does not run on the platform.
pub fn base() -> Option<PathBuf> {
    let base = std::env::var_os(BASE_VARIABLE).filter(|base| !base.is_empty());
    let base = base.map_or_else(|| PathBuf::from(BASE), PathBuf::from);
    base.join(CONFIG).is_dir().then_some(base)
}

impl Platform {
    /// Reads the files of the job with this folder. A file may be missing.
    ///
    /// # Errors
    /// A file can't be read or is not as documented; the error names the file and says what is
    /// wrong.
    pub fn read(base: PathBuf) -> Result<Self, String> {
        let folder = base.join(CONFIG);
        let channels = read(&folder.join(CHANNELS), input_data_config)?;
        let resources = read(&folder.join("resourceconfig.json"), resource_config)?;
        let hyperparameters = read(&folder.join("hyperparameters.json"), hyperparameters)?;
        Ok(Self {
            base,
            describes_channels: channels.is_some(),
            channels: channels.unwrap_or_default(),
            resources,
            hyperparameters: hyperparameters.unwrap_or_default(),
        })
    }

    /// The job that the texts of the three files describe, in the order of [`read`](Self::read).
    ///
    /// # Errors
    /// A text is not as documented.
    pub fn of_texts(
        base: PathBuf,
        [channels, resources, parameters]: [&str; 3],
    ) -> Result<Self, String> {
        Ok(Self {
            base,
            describes_channels: true,
            channels: input_data_config(channels)?,
            resources: Some(resource_config(resources)?),
            hyperparameters: hyperparameters(parameters)?,
        })
    }

    /// The file that describes the channels, for messages.
    pub fn described_in(&self) -> PathBuf {
        self.base.join(CONFIG).join(CHANNELS)
    }

    /// Why the platform describes no channel: its file does not exist, or has none. `None` if it
    /// describes one.
    pub fn why_no_channel(&self) -> Option<String> {
        let file = self.described_in();
        let file = file.display();
        match self.channels.is_empty() {
            false => None,
            true if self.describes_channels => Some(format!("{file} describes no channel")),
            true => Some(format!(
                "there is no {file}, in which the platform describes the job's channels"
            )),
        }
    }
}

/// Reads and parses a file. `None` if it is missing.
fn read<T>(path: &Path, parse: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, String> {
    let wrong = |why: String| format!("{}: {why}", path.display());
    match std::fs::read_to_string(path) {
        Ok(text) => parse(&text).map(Some).map_err(wrong),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(wrong(format!("can't read it: {error}"))),
    }
}
