//! The positions of a mix's inputs, as the text that travels with a batch of the mix: where its
//! object's identity would stand.

use pipemill_types::{BatchPosition, ErrorKind, Fault, is_same_identity, is_same_list};
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

/// What is compared of two identities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// All of it. A list that is not known to its end is another one.
    Whole,
    /// All of it. A list that is not known to its end is the same.
    Known,
    /// The lists, as far as they are known: a window of records may begin again at several places.
    Lists,
}

/// Whether two identities are of the same input: of a channel, or of all channels that are mixed.
pub fn is_same_input(then: &str, now: &str, how: Comparison) -> bool {
    let positions = |text: &str| serde_json::from_str::<Vec<InputPosition>>(text).ok();
    let (Some(then), Some(now)) = (positions(then), positions(now)) else {
        return is_same_object(then, now, how);
    };
    let is_same = |(then, now): (&InputPosition, &InputPosition)| {
        let place = |at: &InputPosition| {
            let BatchPosition { epoch, object_number, first_record, .. } = at.position;
            (at.ended, epoch, object_number, first_record)
        };
        let identity = |at: &InputPosition| at.position.identity.clone();
        then.input == now.input
            && (how == Comparison::Lists || place(then) == place(now))
            && is_same_object(&identity(then), &identity(now), how)
    };
    then.len() == now.len() && then.iter().zip(&now).all(is_same)
}

fn is_same_object(then: &str, now: &str, how: Comparison) -> bool {
    match how {
        Comparison::Whole => is_same_identity(then, now, false),
        Comparison::Known => is_same_identity(then, now, true),
        // An input that has not begun has no list yet.
        Comparison::Lists => then.is_empty() || now.is_empty() || is_same_list(then, now, true),
    }
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
