//! Fields that the host adds to each record on request: where the record is from.

use std::sync::Arc;

use crate::{ErrorKind, Fault, Field, Scalar, schema_extension};

/// A field that the host adds to each record, after those of the decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddedField {
    /// The record's number in the index, as an `int64`.
    Index,
    /// The name of the record's object, as text.
    Object,
}

impl AddedField {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Index, Self::Object];

    /// Name of the field.
    pub fn name(self) -> &'static str {
        match self {
            Self::Index => "__index__",
            Self::Object => "__object__",
        }
    }

    /// The field with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|added| added.name() == name)
    }

    fn field(self) -> Field {
        let scalar = match self {
            Self::Index => Scalar::Int64,
            Self::Object => Scalar::Utf8,
        };
        Field::new(self.name(), scalar, Vec::new())
    }

    /// The fields of a decoder, and then these.
    ///
    /// # Errors
    /// The decoder has a field of the same name.
    pub fn after(fields: &Arc<[Field]>, added: &[Self]) -> Result<Arc<[Field]>, Fault> {
        if added.is_empty() {
            return Ok(fields.clone());
        }
        let is_taken = |one: &&Self| fields.iter().any(|field| field.name == one.name());
        if let Some(taken) = added.iter().find(is_taken) {
            let message = format!("its records have a field `{}` of their own", taken.name());
            let remedy = "leave it out of `add_fields`, or rename the field in the data";
            return Err(Fault::new(ErrorKind::Refused, message, remedy));
        }
        Ok(fields.iter().cloned().chain(added.iter().map(|one| one.field())).collect())
    }

    /// The value of the extension [`schema`](schema_extension) without the lines of these fields:
    /// a decoder knows only its own.
    pub fn removed_from(schema: &str, added: &[Self]) -> String {
        let fields: Vec<_> = added.iter().map(|one| one.field()).collect();
        let lines = schema_extension(&fields).map_or(String::new(), |(_, lines)| lines);
        let is_added = |line: &&str| lines.split_inclusive('\n').any(|added| added == *line);
        schema.split_inclusive('\n').filter(|line| !is_added(line)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_come_after_the_decoders_fields_which_alone_the_decoder_sees() {
        let own: Arc<[Field]> = vec![Field::new("a b", Scalar::Float32, vec![2, 3])].into();
        let text = |fields: &[Field]| schema_extension(fields).map(|(_, text)| text);
        let all = AddedField::after(&own, &AddedField::ALL).expect("no name is taken");
        let names: Vec<_> = all.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names, ["a b", "__index__", "__object__"]);
        let seen = AddedField::removed_from(&text(&all).unwrap_or_default(), &AddedField::ALL);
        assert_eq!(Some(seen), text(&own));
        assert_eq!(AddedField::after(&own, &[]).as_deref(), Ok(&*own));
    }

    #[test]
    fn a_name_that_the_decoder_has_is_refused() {
        let own: Arc<[Field]> = vec![Field::new("__index__", Scalar::Utf8, Vec::new())].into();
        assert!(AddedField::after(&own, &[AddedField::Object]).is_ok());
        let fault = AddedField::after(&own, &AddedField::ALL).expect_err("its name is taken");
        assert_eq!(fault.message, "its records have a field `__index__` of their own");
    }
}
