//! The fields of records in words, for messages.

use pipemill_types::{ErrorKind, Fault, Field};

/// The fault of an object whose records have other fields than those of the objects before it.
pub(crate) fn other_schema(known: &[Field], found: &[Field]) -> Fault {
    Fault::new(
        ErrorKind::Decode,
        format!(
            "its records have the fields {}; those of the objects before it have {}",
            field_names(found),
            field_names(known)
        ),
        "put objects of different schemas into channels of their own",
    )
}

/// The fault of records that have other fields than those of the state that the channel resumes
/// from. The fields are in the form that decoders get.
pub(crate) fn other_fields_than_in_state(then: &str, now: &str) -> Fault {
    let shown = |text: &str| text.trim_end().replace('\n', ", ");
    Fault::new(
        ErrorKind::Refused,
        format!(
            "`schema` differs: its records had the fields {} when the state was taken, and have {} \
             now",
            shown(then),
            shown(now)
        ),
        "bring the objects and options back, begin without the state, or accept it: `schema`",
    )
}

/// Names and descriptions of fields, for people.
pub(crate) fn field_names(fields: &[Field]) -> String {
    let name = |field: &Field| format!("{} ({})", field.name, described(field));
    fields.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// A field in words: everything in which it can differ from another field.
fn described(field: &Field) -> String {
    let mut text = field.scalar.word().to_owned();
    if !field.shape.is_empty() {
        text += &format!(" {:?}", field.shape);
    }
    if !field.logical.is_empty() {
        text += &format!(", {}", field.logical);
    }
    if !field.categories.is_empty() {
        text += &format!(", {} categories", field.categories.len());
    }
    if field.nullable {
        text += ", nullable";
    }
    for (key, value) in &field.metadata {
        text += &format!(", {key} {value}");
    }
    text
}
