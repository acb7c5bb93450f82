//! The values of the fields that the host adds to each record of an object.

use pipemill_decode::DecodedRecords;
use pipemill_types::{AddedField, AddedValue, Column, ErrorKind, Fault};

use crate::batch::ALIGN;

/// The values of the fields that are added to the records of one object.
pub(crate) struct AddedValues<'a> {
    /// The fields, in their order.
    pub(crate) fields: &'a [AddedField],
    /// The values of each.
    values: Vec<AddedValue>,
}

impl<'a> AddedValues<'a> {
    /// `is_known` says whether an index knows the object with this name.
    ///
    /// # Errors
    /// A field needs an index, and none knows the object; or the name lacks the value of a field.
    pub(crate) fn of(
        fields: &'a [AddedField],
        is_known: bool,
        object: &str,
    ) -> Result<Self, Fault> {
        if fields.contains(&AddedField::Index) && !is_known {
            let message = "records have no number in an index, which `__index__` is";
            let remedy = "make an index with `pipemill index`, and read from it, or leave \
                          `__index__` out of `add_fields`";
            return Err(Fault::new(ErrorKind::Refused, message, remedy));
        }
        let values = fields.iter().map(|field| field.value_of(object)).collect::<Result<_, _>>()?;
        Ok(Self { fields, values })
    }

    /// Adds the fields to the records of a call, the first of which has this number in the index.
    ///
    /// # Errors
    /// As [`DecodedRecords::add_fields`].
    pub(crate) fn add_to(&self, decoded: &mut DecodedRecords, record: u64) -> Result<(), Fault> {
        decoded.add_fields(&self.values, record)
    }

    /// Bytes that the values of each record take.
    pub(crate) fn bytes_of_record(&self) -> usize {
        let numbers = self.values.iter().filter(|value| **value == AddedValue::Number);
        numbers.count() * size_of::<u64>()
    }

    /// Bytes of payload that each call needs besides: the values that its records share, and the
    /// gaps before values that are aligned.
    pub(crate) fn bytes_of_call(&self) -> usize {
        let shared = |value: &AddedValue| match value {
            AddedValue::Same(Some(value)) => size_of::<u64>() + value.len(),
            AddedValue::Same(None) | AddedValue::Number => 0,
        };
        let all: usize = self.values.iter().map(shared).sum();
        if self.values.is_empty() { 0 } else { all + 2 * ALIGN }
    }
}

/// Corrects the numbers of records that were counted from the start of a section: `before` is the
/// number of the object's records before it. `columns` are those of records with these added
/// fields, each with a value of its own.
pub(crate) fn shift_numbers(
    added: &[AddedField],
    before: u64,
    columns: &[Column],
    memory: &mut [u8],
) {
    let own = columns.len().saturating_sub(added.len());
    let numbers = columns[own..].iter().zip(added).filter(|(_, one)| **one == AddedField::Index);
    for (column, _) in numbers {
        for record in 0..column.len() {
            let from = column.get(record).0 as usize;
            if let Some(value) = memory[from..].first_chunk_mut() {
                *value = u64::from_le_bytes(*value).saturating_add(before).to_le_bytes();
            }
        }
    }
}
