//! The advice for refusals of the ring. The ring says what is wrong; it knows neither the keys of
//! the configuration nor how programs connect.

use pipemill_ring::host::{RankError, TooFewSlots};

pub(crate) fn of_rank(error: RankError) -> String {
    match error {
        RankError::OutOfRange(_) => error.to_string(),
        RankError::NotDivided => format!(
            "{error}, because it has mode = \"broadcast\"; leave out rank, or change the mode"
        ),
        RankError::Missing(world) => format!("{error}: connect with rank=(rank, {world})"),
    }
}

pub(crate) fn of_slots(error: TooFewSlots) -> String {
    format!("{error}: set `slots = {}` or more", error.needed)
}
