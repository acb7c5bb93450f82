//! The messages for a record that does not have the features that the operator named: what was
//! found, and what to write in the option.

use std::ops::Range;

use pipemill_parsing::field_spec::display_type;
use pipemill_parsing::protobuf::{
    MessageReader, OneOf, Pieces, WireError, add_fixed, add_varints, count_varints, read_map_entry,
};
use pipemill_plugin::Scalar;

use crate::settings::Feature;

/// The field numbers of the oneof in `Feature`: `bytes_list`, `float_list`, `int64_list`.
pub(crate) const CASES: [u32; 3] = [1, 2, 3];

/// Number of features of a record that a message lists.
const MAX_LISTED: usize = 20;

/// The field number, in the oneof, of the list that holds values of this type.
pub(crate) fn case_of(scalar: Scalar) -> u32 {
    match scalar {
        Scalar::Float32 => 2,
        Scalar::Int64 => 3,
        _ => 1,
    }
}

/// The message for a record that lacks a feature.
#[cold]
pub(crate) fn missing(
    wanted: &Feature,
    bytes: &[u8],
    payload: &Range<usize>,
) -> Result<String, WireError> {
    let mut all = Vec::new();
    let mut example = MessageReader::new(bytes, payload.clone());
    while let Some(field) = example.next()? {
        let is_list = match field.number {
            1 => false,
            2 if field.bytes().is_ok() => true,
            _ => continue,
        };
        let mut features = MessageReader::new(bytes, field.bytes()?);
        while let Some(entry) = features.next()? {
            if entry.number == 1 {
                let (key, value) = read_map_entry(bytes, entry.bytes()?)?;
                let key = bytes[key].escape_ascii();
                let found = if is_list {
                    describe_list(bytes, &value)?
                } else {
                    let mut feature = OneOf::default();
                    feature.read(bytes, &value, &CASES)?;
                    describe(bytes, &feature)?
                };
                all.push(format!("{key}:{found}"));
            }
        }
    }
    let key = &wanted.key;
    if all.is_empty() {
        return Ok(format!(
            "feature `{key}` is missing, and so is any other; the record is empty, or no \
             tf.train.Example"
        ));
    }
    let more = if all.len() > MAX_LISTED { ", …" } else { "" };
    all.truncate(MAX_LISTED);
    Ok(format!(
        "feature `{key}` is missing; the record has {}{more}; put a ? after `{key}` in the option \
         `features` if records may be without it",
        all.join(", ")
    ))
}

/// The message for a feature that has a list of another type.
#[cold]
pub(crate) fn other_kind(
    wanted: &Feature,
    bytes: &[u8],
    feature: &OneOf,
) -> Result<String, WireError> {
    let (key, found) = (&wanted.key, describe(bytes, feature)?);
    let expected = display_type(wanted.scalar, &wanted.shape);
    Ok(format!(
        "feature `{key}`: expected {expected}, found {found}; write `{key}:{found}` in the option \
         `features` if that is right"
    ))
}

/// The message for a feature that has more or fewer values than its field.
#[cold]
pub(crate) fn other_count(wanted: &Feature, count: usize) -> String {
    let (key, scalar) = (&wanted.key, wanted.scalar);
    let expected = display_type(scalar, &wanted.shape);
    let (other, any) = (display_type(scalar, &[count as u32]), display_type(scalar, &[0]));
    let other = if count == 0 { String::new() } else { format!("`{key}:{other}`, or ") };
    format!(
        "feature `{key}`: expected {expected}, found {count} values; write {other}`{key}:{any}` for \
         any number, in the option `features`"
    )
}

/// The message for a feature whose byte at `at` is not UTF-8.
#[cold]
pub(crate) fn not_utf8(wanted: &Feature, byte: u8, at: usize) -> String {
    let key = &wanted.key;
    format!(
        "feature `{key}`: expected UTF-8, found byte {byte:02x} at its +{at}; write `{key}:bytes` in \
         the option `features` if it is no text"
    )
}

/// The message for a key that a `SequenceExample` has twice.
#[cold]
pub(crate) fn in_both(wanted: &Feature) -> String {
    let key = &wanted.key;
    format!(
        "the SequenceExample has `{key}` in its context and in its feature lists, so nothing tells \
         which is meant; take whole records with the decoder tfrecord"
    )
}

/// The message for a step of a feature list that has another number of values.
#[cold]
pub(crate) fn other_step(wanted: &Feature, step: usize, expected: usize, count: usize) -> String {
    let (key, scalar) = (&wanted.key, wanted.scalar);
    let each = if wanted.shape.len() > 1 { "the others" } else { "a field of one dimension" };
    let remedy = match scalar {
        Scalar::Int64 | Scalar::Float32 if count > 0 => {
            let shape = display_type(scalar, &[0, count as u32]);
            format!("write `{key}:{shape}` in the option `features` if each step has {count}")
        }
        _ => "take whole records with the decoder tfrecord".to_owned(),
    };
    format!(
        "feature list `{key}`: expected {expected} values in each step, as {each} has, found \
         {count} in step {step}; {remedy}"
    )
}

/// The message for a feature list that has another number of steps.
#[cold]
pub(crate) fn other_steps(wanted: &Feature, steps: usize) -> String {
    let (key, scalar) = (&wanted.key, wanted.scalar);
    let expected = display_type(scalar, &wanted.shape);
    let any: Vec<_> = [0].iter().chain(wanted.shape.iter().skip(1)).copied().collect();
    let any = display_type(scalar, &any);
    format!(
        "feature list `{key}`: expected {expected}, found {steps} steps; write `{key}:{any}` for \
         any number, in the option `features`"
    )
}

/// The type of a feature list, as an operator writes it, by its first step.
fn describe_list(bytes: &[u8], list: &Pieces) -> Result<String, WireError> {
    let mut reader = MessageReader::over(bytes, list);
    while let Some(step) = reader.next()? {
        if step.number == 1 {
            let mut feature = OneOf::default();
            feature.read(bytes, &Pieces::from(step.bytes()?), &CASES)?;
            let count = values(bytes, &feature)?;
            let scalar = match feature.case {
                1 => Scalar::Bytes,
                2 => Scalar::Float32,
                3 => Scalar::Int64,
                _ => return Ok("steps without a value".to_owned()),
            };
            let shape = if count == 1 { vec![0] } else { vec![0, count as u32] };
            return Ok(display_type(scalar, &shape));
        }
    }
    Ok("no steps".to_owned())
}

/// The type and shape of a feature, as an operator writes them; in words if there is no such type.
fn describe(bytes: &[u8], feature: &OneOf) -> Result<String, WireError> {
    let count = values(bytes, feature)?;
    let shape = if count == 1 { vec![] } else { vec![count as u32] };
    Ok(match feature.case {
        1 => display_type(Scalar::Bytes, &shape),
        2 => display_type(Scalar::Float32, &shape),
        3 => display_type(Scalar::Int64, &shape),
        _ => "no value".to_owned(),
    })
}

/// The number of a feature's values.
fn values(bytes: &[u8], feature: &OneOf) -> Result<usize, WireError> {
    let (mut list, mut values) = (Pieces::default(), 0);
    let mut reader = MessageReader::over(bytes, &feature.message);
    while let Some(field) = reader.next()? {
        match (field.number, feature.case) {
            (1, 1) => values += 1,
            (1, 2) => add_fixed(&mut list, &field, 4)?,
            (1, 3) => add_varints(bytes, &mut list, &field)?,
            _ => {}
        }
    }
    Ok(match feature.case {
        2 => list.len() / 4,
        3 => count_varints(bytes, &list),
        _ => values,
    })
}
