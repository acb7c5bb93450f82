//! What a record is instead of what the operator said: the messages, and what to write.

use std::ops::Range;

use pipemill_parsing::field_spec::shown;
use pipemill_parsing::protobuf::{
    Fault, OneOf, Pieces, Reader, add_fixed, add_varints, count_varints, map_entry,
};
use pipemill_plugin::Scalar;

use crate::settings::Feature;

/// The fields of `Feature`: `bytes_list`, `float_list`, `int64_list`.
pub(crate) const CASES: [u32; 3] = [1, 2, 3];

/// Features of a record that a message names.
const NAMED: usize = 20;

/// The field of `Feature` that a type stands in.
pub(crate) fn case_of(scalar: Scalar) -> u32 {
    match scalar {
        Scalar::Float32 => 2,
        Scalar::Int64 => 3,
        _ => 1,
    }
}

/// The record lacks a feature.
#[cold]
pub(crate) fn missing(
    wanted: &Feature,
    bytes: &[u8],
    payload: &Range<usize>,
) -> Result<String, Fault> {
    let mut all = Vec::new();
    let mut example = Reader::new(bytes, payload.clone());
    while let Some(entry) = example.next()? {
        if entry.number != 1 {
            continue;
        }
        let mut features = Reader::new(bytes, entry.bytes()?);
        while let Some(entry) = features.next()? {
            if entry.number == 1 {
                let (key, value) = map_entry(bytes, entry.bytes()?)?;
                let mut feature = OneOf::default();
                feature.read(bytes, &value, &CASES)?;
                let key = bytes[key].escape_ascii();
                all.push(format!("{key}:{}", found(bytes, &feature)?));
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
    let more = if all.len() > NAMED { ", …" } else { "" };
    all.truncate(NAMED);
    Ok(format!(
        "feature `{key}` is missing; the record has {}{more}; put a ? behind `{key}` in the option \
         `features` if records may be without it",
        all.join(", ")
    ))
}

/// The feature is of another kind.
#[cold]
pub(crate) fn other_kind(wanted: &Feature, bytes: &[u8], feature: &OneOf) -> Result<String, Fault> {
    let (key, found) = (&wanted.key, found(bytes, feature)?);
    let expected = shown(wanted.scalar, &wanted.shape);
    let form = if feature.case == 1 { "bytes" } else { &found };
    Ok(format!(
        "feature `{key}`: expected {expected}, found {found}; write `{key}:{form}` in the option \
         `features` if that is right"
    ))
}

/// The feature has more or fewer values.
#[cold]
pub(crate) fn other_count(wanted: &Feature, count: usize) -> String {
    let (key, scalar) = (&wanted.key, wanted.scalar);
    if matches!(scalar, Scalar::Bytes | Scalar::Utf8) {
        let name = shown(scalar, &[]);
        return format!(
            "feature `{key}`: expected one value of {name}, found {count}; a list of such values is \
             no field: take whole records with the decoder `tfrecord`"
        );
    }
    let expected = shown(scalar, &wanted.shape);
    let (other, any) = (shown(scalar, &[count as u32]), shown(scalar, &[0]));
    let other = if count == 0 { String::new() } else { format!("`{key}:{other}`, or ") };
    format!(
        "feature `{key}`: expected {expected}, found {count} values; write {other}`{key}:{any}` for \
         any number, in the option `features`"
    )
}

/// The feature is not text.
#[cold]
pub(crate) fn no_text(wanted: &Feature, byte: u8, at: usize) -> String {
    let key = &wanted.key;
    format!(
        "feature `{key}`: expected UTF-8, found byte {byte:02x} at its +{at}; write `{key}:bytes` in \
         the option `features` if it is no text"
    )
}

/// What a feature is, as an operator would write it.
fn found(bytes: &[u8], feature: &OneOf) -> Result<String, Fault> {
    let (mut list, mut values) = (Pieces::default(), 0);
    let mut reader = Reader::over(bytes, &feature.message);
    while let Some(entry) = reader.next()? {
        match (entry.number, feature.case) {
            (1, 1) => values += 1,
            (1, 2) => add_fixed(&mut list, &entry, 4)?,
            (1, 3) => add_varints(bytes, &mut list, &entry)?,
            _ => {}
        }
    }
    let shape = |count| if count == 1 { vec![] } else { vec![count as u32] };
    Ok(match feature.case {
        1 if values == 1 => "bytes".to_owned(),
        1 => format!("{values} values of bytes"),
        2 => shown(Scalar::Float32, &shape(list.len() / 4)),
        3 => shown(Scalar::Int64, &shape(count_varints(bytes, &list))),
        _ => "no value".to_owned(),
    })
}
