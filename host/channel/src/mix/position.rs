//! The positions of a mix's inputs, as the text that travels with a batch of the mix: where its
//! object's identity would stand.

use pipemill_types::{BatchPosition, ErrorKind, Fault};
use serde::{Deserialize, Serialize};

/// Where an input of a mix goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct InputPosition {
    /// Its channel's name.
    pub(super) input: String,
    /// Whether it had come to its end in the mix's epoch: then `position` is the start of its next
    /// epoch.
    pub(super) ended: bool,
    /// The place of its next record. The number of the batch is 0.
    #[serde(flatten)]
    pub(super) position: BatchPosition,
}

/// The positions of all inputs, as a text.
pub(super) fn to_text(positions: &[InputPosition]) -> String {
    // It has a form in JSON: its keys are names.
    pipemill_types::json::to_string(positions).unwrap_or_default()
}

/// The positions in a state of a mix with these inputs.
///
/// # Errors
/// The text has another form, or is of other inputs.
pub(super) fn of_text<'a>(
    text: &str,
    names: impl ExactSizeIterator<Item = &'a str>,
) -> Result<Vec<InputPosition>, Fault> {
    let names: Vec<_> = names.collect();
    let refused = |found: String| {
        let message = format!(
            "the state has no positions of the channels that are mixed, which are {}: {found}",
            names.join(", ")
        );
        let remedy = "give the text of `Stream.state_dict()` as it was, or begin without the state";
        Fault::new(ErrorKind::Refused, message, remedy)
    };
    let positions: Vec<InputPosition> =
        serde_json::from_str(text).map_err(|error| refused(error.to_string()))?;
    let found: Vec<_> = positions.iter().map(|position| position.input.as_str()).collect();
    if found == names { Ok(positions) } else { Err(refused(format!("it has {found:?}"))) }
}
