//! Fields that the host adds to each record on request: where the record is from.

use std::sync::Arc;

use crate::{ErrorKind, Fault, Field, Partition, Scalar, schema_extension};

/// A field that the host adds to each record, after those of the decoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddedField {
    /// The record's number in the index, as an `int64`.
    Index,
    /// The name of the record's object, as text.
    Object,
    /// A value that the path of the record's object has.
    Partition(Partition),
}

/// The values of an added field for the records of one call of a decoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddedValue {
    /// The record's number.
    Number,
    /// These bytes for all records; `None` if they lack the field.
    Same(Option<Vec<u8>>),
}

impl AddedField {
    /// Those that every object has, whatever its name is.
    pub const ALL: [Self; 2] = [Self::Index, Self::Object];

    /// Name of the field.
    pub fn name(&self) -> &str {
        match self {
            Self::Index => "__index__",
            Self::Object => "__object__",
            Self::Partition(partition) => partition.name(),
        }
    }

    /// The field that a configuration has as this text.
    pub fn from_word(word: &str) -> Option<Self> {
        let known = Self::ALL.into_iter().find(|added| added.name() == word);
        known.or_else(|| Partition::from_word(word).map(Self::Partition))
    }

    /// The text of [`from_word`](Self::from_word).
    pub fn word(&self) -> String {
        match self {
            Self::Index | Self::Object => self.name().to_owned(),
            Self::Partition(partition) => partition.word(),
        }
    }

    /// The values that the records of an object with this name have.
    ///
    /// # Errors
    /// The name lacks the value.
    pub fn value_of(&self, object: &str) -> Result<AddedValue, Fault> {
        Ok(match self {
            Self::Index => AddedValue::Number,
            Self::Object => AddedValue::Same(Some(object.into())),
            Self::Partition(partition) => AddedValue::Same(partition.value_of(object)?),
        })
    }

    fn field(&self) -> Field {
        match self {
            Self::Index => Field::new(self.name(), Scalar::Int64, Vec::new()),
            Self::Object => Field::new(self.name(), Scalar::Utf8, Vec::new()),
            Self::Partition(partition) => partition.field(),
        }
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
