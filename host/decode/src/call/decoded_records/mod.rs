//! The records that a decoder emitted in one call, as checked columns.
//!
//! A decoder can't be trusted, so each span is checked here before other code sees it. The checked
//! spans lie inside the chunk or the payload.
//!
//! The checks have two parts. Fast loops find out whether some span is wrong. Only if one is, a
//! slow loop finds it and describes it.
//!
//! - `rows`: the records of a call of `emit`. Those in the chunk are in the order of the records.
//! - `columns`: the records of a call of `emit-columns`. In the chunk they may be in any order.

use std::ops::Range;
use std::sync::Arc;

use pipemill_types::{
    ABSENT, AddedValue, Column, Even, Fault, Field, list_problem, printable, remove_ranges,
};

use crate::sandbox::account::Account;

mod columns;
mod rows;

pub(crate) use columns::{ColumnSpans, EmittedColumns};
pub(crate) use rows::EmittedRows;

/// This bit of an offset in a [`Column`] is set if the field is in the payload and not in the
/// chunk.
pub const IN_PAYLOAD: u32 = 1 << 31;

/// All records that a decoder emitted in one call.
#[derive(Debug, Default)]
pub struct DecodedRecords {
    /// One column for each field of the decoder, and then one for each field that was added.
    /// Offsets are bytes from the start of the chunk; with [`IN_PAYLOAD`], from the start of the
    /// payload.
    pub columns: Vec<Column>,
    /// Bytes that the decoder produced itself, for fields whose bytes are not in the chunk, and
    /// then those of the fields that were added.
    pub payload: Vec<u8>,
    /// Offset in the chunk at which each record starts. Empty unless the stream was opened with
    /// `offsets`.
    pub starts: Vec<u32>,
    /// Number of records.
    pub records: usize,
    /// Whether at least one field is absent.
    pub absent: bool,
    /// Whether at least one field is in the payload. An empty field counts, too.
    pub has_payload: bool,
    /// Whether no field is in the chunk.
    pub all_in_payload: bool,
    /// Whether records were emitted field by field: if they lie in the chunk, then not in their
    /// order.
    pub in_columns: bool,
    /// Offset in the chunk at which the last emitted span, or the last error, ends; 0 if there is
    /// none.
    pub end: u64,
    /// The errors that the decoder reported and continued after, in the order of the input.
    pub errors: Vec<InlineError>,
    /// The fields of the decoder.
    fields: Arc<[Field]>,
    /// The lengths that each field's type allows.
    length_rules: Vec<LengthRule>,
    /// The fields that are lists.
    lists: Vec<usize>,
}

/// Bytes of the chunk that can't be decoded, between records of the same call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InlineError {
    /// Number of records of the call before the bytes.
    pub records: usize,
    /// Offset in the chunk at which they start.
    pub offset: usize,
    /// Offset in the chunk at which they end.
    pub end: usize,
    /// The error's text: what was expected and what was found.
    pub message: String,
}

/// The lengths, in bytes, that a field's type and shape allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LengthRule {
    Any,
    Exactly(u32),
    MultipleOf(u32),
}

impl LengthRule {
    fn of(field: &Field) -> Self {
        let known = field.shape.iter().filter(|dim| **dim > 0);
        let bytes = known
            .fold(field.scalar.size() as u64, |size, dim| size.saturating_mul(u64::from(*dim)));
        let open = field.shape.contains(&0);
        match u32::try_from(bytes) {
            _ if field.scalar.is_string() => Self::Any,
            Ok(1) if open => Self::Any,
            Ok(bytes) if open => Self::MultipleOf(bytes),
            Ok(bytes) => Self::Exactly(bytes),
            // This is longer than any span, so every field is refused. `Field::problem` finds the
            // cause first.
            Err(_) => Self::Exactly(u32::MAX),
        }
    }

    fn allows(self, offset: u32, length: u32) -> bool {
        offset == ABSENT
            || match self {
                Self::Any => true,
                Self::Exactly(bytes) => length == bytes,
                Self::MultipleOf(bytes) => length.is_multiple_of(bytes),
            }
    }
}

impl DecodedRecords {
    /// No record yet, of a decoder with these fields. Who fills the columns has checked them.
    pub fn of_fields(fields: &Arc<[Field]>) -> Self {
        let mut records = Self::default();
        records.set_fields(fields);
        records.clear();
        records
    }

    /// Removes all records. The fields and the allocated memory stay.
    pub fn clear(&mut self) {
        self.errors.clear();
        self.columns.iter_mut().for_each(Column::clear);
        self.payload.clear();
        self.starts.clear();
        self.records = 0;
        self.absent = false;
        self.has_payload = false;
        self.all_in_payload = true;
        self.in_columns = false;
        self.end = 0;
    }

    /// Sets the fields of the decoder.
    pub(crate) fn set_fields(&mut self, fields: &Arc<[Field]>) {
        self.fields = fields.clone();
        self.columns.resize_with(fields.len(), Column::default);
        self.length_rules = fields.iter().map(LengthRule::of).collect();
        let lists = fields.iter().enumerate().filter(|(_, field)| field.is_list());
        self.lists = lists.map(|(index, _)| index).collect();
    }

    /// Adds fields with these values to all records of the call. The first of them is record number
    /// `first`. The values lie in the payload: one for each record, or one for all of them.
    ///
    /// # Errors
    /// The payload has no room for the values. The records are removed then.
    pub fn add_fields(&mut self, added: &[AddedValue], first: u64) -> Result<(), Fault> {
        let (own, records) = (self.fields.len(), self.records);
        self.columns.resize_with(own + added.len(), Column::default);
        if added.is_empty() || records == 0 {
            return Ok(());
        }
        let size_of_value = |value: &AddedValue| match value {
            AddedValue::Number => 8 * (records as u64 + 1),
            AddedValue::Same(value) => 8 + value.as_ref().map_or(0, Vec::len) as u64,
        };
        let most = self.payload.len() as u64 + added.iter().map(size_of_value).sum::<u64>();
        if most >= u64::from(IN_PAYLOAD) {
            self.clear();
            return Err(Fault::contract("emitted 2 GiB of payload in a call"));
        }
        for (column, added) in self.columns[own..].iter_mut().zip(added) {
            // Numbers are aligned, as consumers read them.
            let start = self.payload.len().next_multiple_of(size_of::<u64>());
            let value_at = |at: usize| at as u32 | IN_PAYLOAD;
            match added {
                AddedValue::Number => {
                    self.payload.resize(start, 0);
                    let numbers = first..first + records as u64;
                    self.payload.extend(numbers.flat_map(u64::to_le_bytes));
                    let (first, size) = (value_at(start), size_of::<u64>() as u32);
                    column.extend_even(Even { first, size, records: records as u32 });
                    self.has_payload = true;
                }
                AddedValue::Same(Some(value)) => {
                    self.payload.resize(start, 0);
                    self.payload.extend_from_slice(value);
                    let (offsets, lengths) = column.lists();
                    offsets.resize(records, value_at(start));
                    lengths.resize(records, value.len() as u32);
                    self.has_payload = true;
                }
                AddedValue::Same(None) => {
                    let (offsets, lengths) = column.lists();
                    offsets.resize(records, ABSENT);
                    lengths.resize(records, 0);
                    self.absent = true;
                }
            }
        }
        Ok(())
    }

    /// Removes the records of the call in these ranges, which are in order.
    pub fn remove(&mut self, ranges: &[Range<usize>]) {
        for column in &mut self.columns {
            column.remove(ranges);
        }
        remove_ranges(&mut self.starts, ranges);
        for error in &mut self.errors {
            let before = ranges.iter().take_while(|range| range.start < error.records);
            error.records -=
                before.map(|range| range.end.min(error.records) - range.start).sum::<usize>();
        }
        self.records -= ranges.iter().map(Range::len).sum::<usize>();
    }

    /// Checks the requirements of the fields' types, in the records that were just added. `chunk`
    /// is the chunk.
    fn check_fields(&self, chunk: &[u8], account: &mut Account) -> wasmtime::Result<()> {
        self.check_lengths()?;
        if self.absent {
            self.check_absent()?;
        }
        self.lists.iter().try_for_each(|field| self.check_lists(*field, chunk, account))
    }

    /// Checks that no field is absent that is not nullable.
    fn check_absent(&self) -> Result<(), Fault> {
        let fields = self.fields.iter().zip(&self.columns).filter(|(field, _)| !field.nullable);
        for (field, column) in fields.filter(|(_, column)| column.even().is_none()) {
            let new = &column.offsets()[self.records..];
            if let Some(row) = new.iter().position(|offset| *offset == ABSENT) {
                return Err(Fault::contract(format!(
                    "record {} of the call lacks the field `{}`, which is not declared nullable",
                    self.records + row,
                    printable(&field.name)
                )));
            }
        }
        Ok(())
    }

    /// Checks the offsets of the lists in a field. Lists in the payload may share bytes, so the
    /// work is charged to `account`.
    fn check_lists(
        &self,
        field: usize,
        chunk: &[u8],
        account: &mut Account,
    ) -> wasmtime::Result<()> {
        let column = &self.columns[field];
        let new = column.offsets().iter().zip(column.lengths()).enumerate().skip(self.records);
        for (record, (offset, length)) in new.filter(|(_, (offset, _))| **offset != ABSENT) {
            let bytes = if offset & IN_PAYLOAD == 0 { chunk } else { &self.payload };
            let from = (offset & !IN_PAYLOAD) as usize;
            account.work(*length as usize)?;
            if let Some(problem) = list_problem(&bytes[from..from + *length as usize]) {
                let name = printable(&self.fields[field].name);
                return Err(Fault::contract(format!(
                    "record {record} of the call has a list in field `{name}` that {problem}"
                ))
                .into());
            }
        }
        Ok(())
    }

    /// Checks the position of an error in a chunk of `chunk` bytes.
    pub(crate) fn check_error(&self, chunk: usize, offset: usize, end: usize) -> Result<(), Fault> {
        if end > chunk || end <= offset {
            return Err(Fault::contract(format!(
                "reports bad bytes from {offset} to {end} in a chunk of {chunk}"
            )));
        }
        if (offset as u64) < self.end {
            return Err(error_inside_record(offset, self.end));
        }
        Ok(())
    }

    /// Adds an error whose position was checked.
    pub(crate) fn add_error(&mut self, offset: usize, end: usize, message: String) {
        self.errors.push(InlineError { records: self.records, offset, end, message });
        self.end = end as u64;
    }

    /// Checks the lengths of the fields that were just added.
    fn check_lengths(&self) -> Result<(), Fault> {
        for (field, (column, rule)) in self.columns.iter().zip(&self.length_rules).enumerate() {
            if *rule == LengthRule::Any {
                continue;
            }
            if column.even().is_some_and(|even| rule.allows(even.first, even.size)) {
                continue;
            }
            let (offsets, lengths) =
                (&column.offsets()[self.records..], &column.lengths()[self.records..]);
            let pairs = offsets.iter().zip(lengths);
            if pairs.clone().fold(true, |good, (at, length)| good & rule.allows(*at, *length)) {
                continue;
            }
            let wrong = pairs.zip(self.records..).find(|((at, len), _)| !rule.allows(**at, **len));
            let (length, record) = wrong.map_or((0, 0), |((_, length), record)| (*length, record));
            let wanted = match rule {
                LengthRule::MultipleOf(bytes) => format!("a multiple of {bytes}"),
                LengthRule::Exactly(bytes) => format!("{bytes}"),
                LengthRule::Any => String::new(),
            };
            return Err(Fault::contract(format!(
                "record {record} of the call has {length} bytes in field `{}`; its type and \
                 shape want {wanted}",
                printable(&self.fields[field].name)
            )));
        }
        Ok(())
    }

    /// Removes the records that a refused call of the decoder has added. `payload` is the length of
    /// the payload before that call.
    fn truncate(&mut self, payload: usize) {
        self.columns.iter_mut().for_each(|column| column.truncate(self.records));
        self.payload.truncate(payload);
    }
}

/// The fault of an error whose position is before the end of the records of its call.
pub(crate) fn error_inside_record(offset: usize, records_end: u64) -> Fault {
    Fault::contract(format!(
        "reports an error at {offset}, inside a record that it emitted and that ends at \
         {records_end}"
    ))
}
