//! A batch of rows: its columns are loaded, then its rows are emitted, in several calls if they are
//! many. Rows are emitted together (`column_block`), or one by one if one of them has an error.

use std::ops::Range;

use pipemill_parsing::columns::NULL_ELEMENT;
use pipemill_plugin::{Records, Scalar};

use crate::array::{Bits, Lists, LoadError, Loader, StoredList, StoredValues, Validity, Values};
use crate::column_block::{Block, rows_together};
use crate::columns::{Column, Layout, Leaf, Storage};
use crate::convert::Convert;
use crate::dictionaries::Dictionaries;
use crate::dictionary::Dictionary;

/// A batch whose rows are being emitted.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) rows: usize,
    /// The next row.
    pub(crate) row: usize,
    columns: Vec<Stored>,
}

/// The buffers of a column.
#[derive(Debug)]
struct Stored {
    structs: Vec<Validity>,
    lists: Vec<StoredList>,
    values: StoredValues,
}

/// An error in a column, by its number.
pub(crate) type ColumnError<E> = (usize, E);

impl Batch {
    /// Finds the buffers of the columns, and checks their sizes.
    pub(crate) fn load(
        layout: &Layout,
        loader: &mut Loader,
    ) -> Result<Self, ColumnError<LoadError>> {
        let rows = loader.header.rows;
        let columns = layout.columns.iter().enumerate();
        let columns = columns
            .map(|(number, column)| load(column, rows, loader).map_err(|why| (number, why)))
            .collect::<Result<_, _>>()?;
        Ok(Self { rows, row: 0, columns })
    }

    /// Emits rows, until `most` bytes of output are reached. Returns their bytes.
    pub(crate) fn emit(
        &mut self,
        layout: &Layout,
        dictionaries: &Dictionaries,
        (chunk, start): (&[u8], usize),
        most: usize,
        out: &mut Records,
    ) -> Result<usize, ColumnError<String>> {
        let message = &chunk[start..];
        let columns = self.columns.iter().zip(&layout.columns);
        let columns: Vec<_> =
            columns.map(|(stored, column)| stored.open(column, dictionaries, message)).collect();
        let mut spent = 0;
        while self.row < self.rows && spent < most {
            let rows = rows_together(&columns, self.row..self.rows, most - spent);
            if let Some(block) = Block::of(&columns, rows.clone(), most) {
                spent += block.bytes();
                block.emit(chunk, start, out);
                self.row = rows.end;
                continue;
            }
            // One of the rows can't be emitted: those before it are emitted one by one.
            while self.row < rows.end && spent < most {
                spent += emit_row(&columns, self.row, out)?;
                out.end_record(start);
                self.row += 1;
            }
        }
        Ok(spent)
    }
}

/// Adds the fields of a row. Returns their bytes.
fn emit_row(
    columns: &[OpenColumn<'_>],
    row: usize,
    out: &mut Records,
) -> Result<usize, ColumnError<String>> {
    let mut bytes = 0;
    for (number, column) in columns.iter().enumerate() {
        match column.emit(row, out) {
            Ok(of_value) => bytes += of_value + 8,
            Err(why) => {
                out.abandon_record();
                return Err((number, why));
            }
        }
    }
    Ok(bytes)
}

fn load(column: &Column, rows: usize, loader: &mut Loader) -> Result<Stored, LoadError> {
    let of_rows = |found: usize| match found == rows {
        true => Ok(()),
        false => Err(LoadError::Bad(format!("expected {rows} values, found {found}"))),
    };
    let mut structs = Vec::new();
    for slot in &column.structs {
        let validity = loader.validity(*slot)?;
        of_rows(validity.rows)?;
        structs.push(validity);
    }
    let mut lists = Vec::new();
    for list in &column.lists {
        let stored = loader.list(list.slot, list.form)?;
        if lists.is_empty() {
            of_rows(stored.validity.rows)?;
        }
        lists.push(stored);
    }
    let values = loader.values(&column.values)?;
    if lists.is_empty() {
        of_rows(values.validity.rows)?;
    }
    Ok(Stored { structs, lists, values })
}

impl Stored {
    fn open<'a>(
        &'a self,
        column: &'a Column,
        dictionaries: &'a Dictionaries,
        message: &'a [u8],
    ) -> OpenColumn<'a> {
        let lists = self.lists.iter();
        let dictionary = column.values.dictionary.as_ref();
        let inner = self.lists.iter().skip(1).map(|list| list.validity.rows);
        OpenColumn {
            column,
            structs: self.structs.iter().map(|one| one.bits(message)).collect(),
            lists: lists.map(|one| one.open(message)).collect(),
            elements: inner.chain([self.values.validity.rows]).collect(),
            values: self.values.open(column.values.storage, message),
            dictionary: dictionary.and_then(|one| dictionaries.get(&one.id)?.as_ref()),
        }
    }
}

/// A column whose buffers are at hand.
pub(crate) struct OpenColumn<'a> {
    pub(crate) column: &'a Column,
    pub(crate) structs: Vec<Bits<'a>>,
    pub(crate) lists: Vec<Lists<'a>>,
    /// How many elements there are for each of the lists.
    elements: Vec<usize>,
    pub(crate) values: Values<'a>,
    dictionary: Option<&'a Dictionary>,
}

/// A value that is not absent.
pub(crate) enum Value<'a> {
    /// These bytes.
    Same(&'a [u8]),
    /// These bytes, which are converted.
    Converted(&'a [u8]),
    /// The list of these elements.
    List(Range<usize>),
}

impl<'a> OpenColumn<'a> {
    /// Emits the value of a row. Returns its bytes.
    #[inline]
    fn emit(&self, row: usize, out: &mut Records) -> Result<usize, String> {
        match self.value(row)? {
            None => self.absent(out),
            Some(value) => out.field_made(|payload| {
                let from = payload.len();
                self.push_value(&value, payload)?;
                Ok(payload.len() - from)
            }),
        }
    }

    /// The value of a row. `None` if it is absent.
    #[inline]
    pub(crate) fn value(&self, row: usize) -> Result<Option<Value<'a>>, String> {
        let leaf = &self.column.values;
        if self.structs.iter().any(|bits| bits.is_null(row)) {
            return Ok(None);
        }
        if !self.lists.is_empty() {
            return self.elements_of(row).map(|elements| elements.map(Value::List));
        }
        if leaf.storage == Storage::None || self.values.valid.is_null(row) {
            return Ok(None);
        }
        let stored = self.values.get(row)?;
        if leaf.dictionary.is_some() {
            return Ok(self.lookup(leaf, stored)?.map(Value::Same));
        }
        Ok(Some(match leaf.convert {
            Convert::Same => Value::Same(stored),
            _ => Value::Converted(stored),
        }))
    }

    /// Appends a value.
    #[inline]
    pub(crate) fn push_value(&self, value: &Value<'_>, to: &mut Vec<u8>) -> Result<(), String> {
        match value {
            Value::Same(stored) => {
                to.extend_from_slice(stored);
                Ok(())
            }
            Value::Converted(stored) => push(self.column.values.convert, stored, to),
            Value::List(elements) => self.push_list(elements.clone(), to),
        }
    }

    fn absent(&self, out: &mut Records) -> Result<usize, String> {
        if !self.column.field.nullable {
            return Err("a value is null, but the schema says that none is".to_owned());
        }
        out.absent();
        Ok(0)
    }

    /// The value of a dictionary that an index stands for. `None` if it is null.
    fn lookup(&self, leaf: &Leaf, index: &[u8]) -> Result<Option<&'a [u8]>, String> {
        let Some(reference) = &leaf.dictionary else { return Ok(None) };
        let id = reference.id;
        let Some(dictionary) = self.dictionary else {
            return Err(format!("its dictionary {id} is missing, or was damaged"));
        };
        let sign = index.last().is_some_and(|byte| reference.is_signed && byte >> 7 == 1);
        let mut wide = [if sign { 0xff } else { 0 }; 8];
        wide[..index.len()].copy_from_slice(index);
        let number = u64::from_le_bytes(wide);
        let value = usize::try_from(number).ok().and_then(|index| dictionary.get(index));
        value.ok_or_else(|| {
            let (most, shown) =
                (dictionary.len(), if sign { number as i64 as i128 } else { number.into() });
            format!("expected an index below {most} of dictionary {id}, found {shown}")
        })
    }

    /// The elements of a row's list. `None` if it is absent.
    fn elements_of(&self, row: usize) -> Result<Option<Range<usize>>, String> {
        if self.lists[0].valid.is_null(row) {
            return Ok(None);
        }
        let mut elements = row..row + 1;
        for (at, (list, most)) in self.lists.iter().zip(&self.elements).enumerate() {
            if at > 0 && list.valid.has_null(elements.clone()) {
                return Err(NULL_ELEMENT.to_owned());
            }
            elements = list.elements(elements, *most)?;
        }
        if self.values.valid.has_null(elements.clone()) {
            return Err(NULL_ELEMENT.to_owned());
        }
        Ok(Some(elements))
    }

    /// Appends the list of these elements.
    fn push_list(&self, elements: Range<usize>, payload: &mut Vec<u8>) -> Result<(), String> {
        let leaf = &self.column.values;
        let has_offsets = matches!(self.column.field.scalar, Scalar::Bytes | Scalar::Utf8);
        match (leaf.storage, leaf.convert, &leaf.dictionary) {
            (Storage::Fixed(size), Convert::Same, None) if !has_offsets => {
                let bytes = elements.start * size..elements.end * size;
                payload.extend_from_slice(self.values.first.get(bytes).unwrap_or_default());
                Ok(())
            }
            _ if has_offsets => self.push_strings(leaf, elements, payload),
            _ => elements.into_iter().try_for_each(|at| self.push_element(leaf, at, payload)),
        }
    }

    /// Appends a list of bytes or text: the offsets of its elements, then these.
    fn push_strings(
        &self,
        leaf: &Leaf,
        elements: Range<usize>,
        payload: &mut Vec<u8>,
    ) -> Result<(), String> {
        let from = payload.len();
        payload.resize(from + 4 * (elements.len() + 1), 0);
        let first = payload.len();
        let mut place = from;
        let mut set = |payload: &mut Vec<u8>| {
            let offset = (payload.len() - from) as u32;
            payload[place..place + 4].copy_from_slice(&offset.to_le_bytes());
            place += 4;
        };
        set(payload);
        debug_assert_eq!(payload.len(), first);
        for element in elements {
            self.push_element(leaf, element, payload)?;
            set(payload);
        }
        Ok(())
    }

    /// Appends an element that is not null.
    fn push_element(
        &self,
        leaf: &Leaf,
        element: usize,
        payload: &mut Vec<u8>,
    ) -> Result<(), String> {
        let stored = self.values.get(element)?;
        if leaf.dictionary.is_none() {
            return push(leaf.convert, stored, payload);
        }
        let value = self.lookup(leaf, stored)?.ok_or(NULL_ELEMENT)?;
        payload.extend_from_slice(value);
        Ok(())
    }
}

/// Appends a value.
#[inline]
fn push(convert: Convert, stored: &[u8], payload: &mut Vec<u8>) -> Result<(), String> {
    let result = convert.push(stored, payload);
    result.map_err(|what| format!("expected a value of its type, found {what}"))
}
