//! The parsers of text that others write, for fuzz targets: the configuration, and SageMaker's files.

use std::path::PathBuf;

use crate::{config, sagemaker};

/// Reads a configuration, and writes it with all defaults. The variable `V` is `v`; no other is set.
///
/// # Errors
/// All faults, each in one line.
pub fn config(text: &str) -> Result<String, Vec<String>> {
    let env = |name: &str| (name == "V").then(|| "v".to_owned());
    let parsed = config::parse(text, "pipemill.toml", &env);
    let faults = |faults: Vec<config::Fault>| faults.iter().map(ToString::to_string).collect();
    parsed.map(|config| config::show(&config)).map_err(faults)
}

/// What follows from SageMaker's files.
#[derive(Debug)]
pub struct SageMaker {
    /// The variables for the command, and their values.
    pub variables: Vec<(String, String)>,
    /// The configuration without any file, with all defaults; or its faults, each in one line.
    pub config: Result<String, Vec<String>>,
}

/// Reads the texts of `inputdataconfig.json`, `resourceconfig.json` and `hyperparameters.json`.
///
/// # Errors
/// What is wrong with a text.
pub fn sagemaker(texts: [&str; 3]) -> Result<SageMaker, String> {
    let platform = sagemaker::Platform::of_texts(PathBuf::from("/opt/ml"), texts)?;
    let presets = sagemaker::presets(&platform);
    let parsed = config::parse_over(&presets, "", "pipemill.toml", &|_| None);
    let faults = |faults: Vec<config::Fault>| faults.iter().map(ToString::to_string).collect();
    let config = parsed.map(|config| config::show(&config)).map_err(faults);
    Ok(SageMaker { variables: sagemaker::environment(&platform), config })
}
