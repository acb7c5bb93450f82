//! The checks and loops that single features and sequences share.

use pipemill_parsing::protobuf::{MessageReader, Pieces, WireError, WireField};
use pipemill_plugin::Scalar;

use crate::describe;
use crate::settings::Feature;

/// The reason why a record is refused.
#[derive(Debug)]
pub(crate) enum Refused {
    /// It is an invalid message.
    Invalid(WireError),
    /// It does not have the features that the operator named. The text is the error message.
    Mismatch(String),
}

impl From<WireError> for Refused {
    fn from(error: WireError) -> Self {
        Self::Invalid(error)
    }
}

/// Checks that a value is UTF-8, if its field is text.
pub(crate) fn check_text(wanted: &Feature, value: &[u8]) -> Result<(), Refused> {
    if wanted.scalar == Scalar::Utf8
        && let Err(error) = str::from_utf8(value)
    {
        let at = error.valid_up_to();
        return Err(Refused::Mismatch(describe::not_utf8(wanted, value[at], at)));
    }
    Ok(())
}

/// Reads a list of numbers into `numbers`.
#[inline(always)]
pub(crate) fn read_numbers(
    mut list: MessageReader,
    numbers: &mut Pieces,
    add: impl Fn(&mut Pieces, &WireField) -> Result<(), WireError>,
) -> Result<(), WireError> {
    numbers.clear();
    while let Some(field) = list.next()? {
        if field.number == 1 {
            add(numbers, &field)?;
        }
    }
    Ok(())
}
