//! Checks the positions of a mix's inputs in a state: they must belong to this mix and to its
//! input.

use pipemill_types::{
    BatchPosition, ErrorKind, Fault, InputPosition, InputPositions, is_same_identity, is_same_list,
};

/// The parts of two identities that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// All of it. A list that is not known to its end counts as another one.
    Whole,
    /// All of it. A list that is not known to its end counts as the same.
    Known,
    /// The known parts of the lists: a window of records may resume at several places.
    Lists,
}

/// Whether two positions are in the same input: of a channel, or of all channels of a mix.
pub fn is_same_input(then: &BatchPosition, now: &BatchPosition, how: Comparison) -> bool {
    let is_same = |(then, now): (&InputPosition, &InputPosition)| {
        let place = |at: &InputPosition| {
            let BatchPosition { epoch, object_number, first_record, .. } = at.position;
            (at.ended, epoch, object_number, first_record)
        };
        then.input == now.input
            && (how == Comparison::Lists || place(then) == place(now))
            && is_same_object(&then.position, &now.position, how)
    };
    then.inputs.len() == now.inputs.len()
        && then.inputs.iter().zip(now.inputs.iter()).all(is_same)
        && is_same_object(then, now, how)
}

fn is_same_object(then: &BatchPosition, now: &BatchPosition, how: Comparison) -> bool {
    let (then, now) = (then.identity.text(), now.identity.text());
    match how {
        Comparison::Whole => is_same_identity(then, now, false),
        Comparison::Known => is_same_identity(then, now, true),
        // An input that has not begun has no list yet.
        Comparison::Lists => then.is_empty() || now.is_empty() || is_same_list(then, now, true),
    }
}

/// Checks that a state's positions are those of a mix with these inputs.
///
/// # Errors
/// The positions belong to other inputs.
pub(super) fn check_inputs<'a>(
    positions: &InputPositions,
    names: impl Iterator<Item = &'a str>,
) -> Result<(), Fault> {
    let names: Vec<_> = names.collect();
    let found: Vec<_> = positions.iter().map(|position| position.input.as_str()).collect();
    if found == names {
        return Ok(());
    }
    let message = format!(
        "the state has no positions of the channels that are mixed, which are {}: it has {found:?}",
        names.join(", ")
    );
    let remedy = "give the state as `Stream.state_dict()` returned it, or begin without the state";
    Err(Fault::new(ErrorKind::Refused, message, remedy))
}
