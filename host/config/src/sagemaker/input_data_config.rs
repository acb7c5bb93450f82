//! `input/config/inputdataconfig.json`: the job's channels.
//! <https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-running-container.html>

use std::collections::BTreeMap;

use serde::Deserialize;

/// How a channel's data reaches the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputMode {
    /// Through FIFOs, one for each epoch.
    Pipe,
    /// As files that are copied before the start.
    File,
    /// As files that are fetched when they are read.
    FastFile,
}

/// A channel in the words of the platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputChannel {
    /// How the data reaches the container.
    pub mode: InputMode,
    /// The MIME type of the data, if the job names one.
    pub content_type: Option<String>,
    /// Whether each object is one RecordIO record.
    pub wrapped: bool,
    /// Whether each host gets a part of the objects only.
    pub is_divided: bool,
}

/// A channel as JSON.
#[derive(Deserialize)]
struct ChannelJson {
    #[serde(rename = "TrainingInputMode")]
    mode: String,
    #[serde(rename = "ContentType")]
    content_type: Option<String>,
    #[serde(rename = "RecordWrapperType")]
    wrapper: Option<String>,
    #[serde(rename = "S3DistributionType")]
    distribution: Option<String>,
}

/// Parses the file's text to channels by name.
///
/// # Errors
/// The text is not as documented; the error says what is wrong.
pub fn input_data_config(text: &str) -> Result<BTreeMap<String, InputChannel>, String> {
    let written: BTreeMap<String, ChannelJson> =
        serde_json::from_str(text).map_err(|error| error.to_string())?;
    let read = |(name, written): (String, ChannelJson)| {
        let channel = channel(written).map_err(|what| format!("channel `{name}`: {what}"))?;
        Ok((name, channel))
    };
    written.into_iter().map(read).collect()
}

fn channel(written: ChannelJson) -> Result<InputChannel, String> {
    let wrong = |key: &str, expected: &str, found: &str| {
        Err(format!("{key}: expected {expected}, found {found:?}"))
    };
    // The platform writes it in different cases.
    let mode = match written.mode.to_ascii_lowercase().as_str() {
        "pipe" => InputMode::Pipe,
        "file" => InputMode::File,
        "fastfile" => InputMode::FastFile,
        _ => return wrong("TrainingInputMode", "Pipe, File or FastFile", &written.mode),
    };
    let wrapped = match written.wrapper.as_deref() {
        None | Some("None") => false,
        Some("RecordIO") => true,
        Some(other) => return wrong("RecordWrapperType", "None or RecordIO", other),
    };
    let is_divided = match written.distribution.as_deref() {
        None | Some("FullyReplicated") => false,
        Some("ShardedByS3Key") => true,
        Some(other) => {
            return wrong("S3DistributionType", "FullyReplicated or ShardedByS3Key", other);
        }
    };
    Ok(InputChannel { mode, content_type: written.content_type, wrapped, is_divided })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_wrappers_and_unknown_keys_of_the_platform_are_read() {
        let text = r#"{
            "train": {"ContentType": "application/x-recordio", "TrainingInputMode": "Pipe",
                      "S3DistributionType": "ShardedByS3Key", "RecordWrapperType": "RecordIO"},
            "test": {"TrainingInputMode": "FASTFILE", "S3DistributionType": "FullyReplicated",
                     "RecordWrapperType": "None", "SomethingNew": {}}
        }"#;
        let channels = input_data_config(text).unwrap();
        let (train, test) = (&channels["train"], &channels["test"]);
        assert_eq!((train.mode, train.wrapped, train.is_divided), (InputMode::Pipe, true, true));
        assert_eq!(train.content_type.as_deref(), Some("application/x-recordio"));
        assert_eq!((test.mode, test.wrapped, test.is_divided), (InputMode::FastFile, false, false));
        assert_eq!(test.content_type, None);
    }

    #[test]
    fn a_wrong_file_gives_an_error_that_names_the_key() {
        for (text, says) in [
            ("[]", "expected a map"),
            (r#"{"a": {}}"#, "missing field `TrainingInputMode`"),
            (
                r#"{"a": {"TrainingInputMode": "Tube"}}"#,
                "channel `a`: TrainingInputMode: expected Pipe",
            ),
            (r#"{"a": {"TrainingInputMode": "Pipe", "RecordWrapperType": "x"}}"#, "found \"x\""),
            (
                r#"{"a": {"TrainingInputMode": "Pipe", "S3DistributionType": "x"}}"#,
                "ShardedByS3Key",
            ),
        ] {
            let error = input_data_config(text).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
