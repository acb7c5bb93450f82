//! `input/config/inputdataconfig.json`: the job's channels.
//! <https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-running-container.html>

use std::collections::BTreeMap;

use serde::Deserialize;

/// How a channel's data gets into the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputMode {
    /// Through a FIFO an epoch.
    Pipe,
    /// As files that were copied before the start.
    File,
    /// As files that are fetched when they are read.
    FastFile,
}

/// A channel, as the platform describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputChannel {
    /// How its data gets into the container.
    pub mode: InputMode,
    /// The MIME type that was given for its data, if one was.
    pub content_type: Option<String>,
    /// Whether each object is one RecordIO record.
    pub wrapped: bool,
    /// Whether each host sees a share of the objects.
    pub sharded: bool,
}

#[derive(Deserialize)]
struct Written {
    #[serde(rename = "TrainingInputMode")]
    mode: String,
    #[serde(rename = "ContentType")]
    content_type: Option<String>,
    #[serde(rename = "RecordWrapperType")]
    wrapper: Option<String>,
    #[serde(rename = "S3DistributionType")]
    distribution: Option<String>,
}

/// Reads the file's text: the channels by name.
///
/// # Errors
/// What is wrong with it, in words.
pub fn input_data_config(text: &str) -> Result<BTreeMap<String, InputChannel>, String> {
    let written: BTreeMap<String, Written> =
        serde_json::from_str(text).map_err(|error| error.to_string())?;
    let read = |(name, written): (String, Written)| {
        let channel = channel(written).map_err(|what| format!("channel `{name}`: {what}"))?;
        Ok((name, channel))
    };
    written.into_iter().map(read).collect()
}

fn channel(written: Written) -> Result<InputChannel, String> {
    let wrong = |key: &str, expected: &str, found: &str| {
        Err(format!("{key}: expected {expected}, found {found:?}"))
    };
    // Its case varies.
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
    let sharded = match written.distribution.as_deref() {
        None | Some("FullyReplicated") => false,
        Some("ShardedByS3Key") => true,
        Some(other) => {
            return wrong("S3DistributionType", "FullyReplicated or ShardedByS3Key", other);
        }
    };
    Ok(InputChannel { mode, content_type: written.content_type, wrapped, sharded })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_platform_writes_it() {
        let text = r#"{
            "train": {"ContentType": "application/x-recordio", "TrainingInputMode": "Pipe",
                      "S3DistributionType": "ShardedByS3Key", "RecordWrapperType": "RecordIO"},
            "test": {"TrainingInputMode": "FASTFILE", "S3DistributionType": "FullyReplicated",
                     "RecordWrapperType": "None", "SomethingNew": {}}
        }"#;
        let channels = input_data_config(text).unwrap();
        let (train, test) = (&channels["train"], &channels["test"]);
        assert_eq!((train.mode, train.wrapped, train.sharded), (InputMode::Pipe, true, true));
        assert_eq!(train.content_type.as_deref(), Some("application/x-recordio"));
        assert_eq!((test.mode, test.wrapped, test.sharded), (InputMode::FastFile, false, false));
        assert_eq!(test.content_type, None);
    }

    #[test]
    fn mangled() {
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
