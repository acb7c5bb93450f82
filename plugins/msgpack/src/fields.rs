//! The option `fields`: the values of a record that become fields.

use std::cell::Cell;

use pipemill_parsing::field_spec::{FieldSpec, LogicalType, SpecOption};
use pipemill_parsing::pointers::{PointerTree, array_size, field_name, pointer_keys};
use pipemill_plugin::{Field, Records, Scalar};

use crate::convert::WantedField;
use crate::errors;
use crate::format;
use crate::scan::Scanner;

const FIELDS: SpecOption = SpecOption {
    name: "fields",
    example: "id=/meta/id:int64,text:utf8?,vec:float32[128]",
    types: &Scalar::ALL,
    logical_types: &[LogicalType {
        name: "timestamp",
        scalar: Scalar::Int64,
        logical: "timestamp[ns]",
    }],
    sized_bytes: false,
    lists: true,
};

/// Largest number of keys of a pointer. The scan of a record calls itself for each.
const MAX_KEYS: usize = 128;

/// The wanted fields.
#[derive(Debug)]
pub(crate) struct Fields {
    wanted: Vec<WantedField>,
    scanner: Scanner,
    /// Whether a whole record is wanted as a value: then it need not be a map or an array.
    whole: bool,
    /// Number of bytes that are made for each record: fields, and their spans.
    made_per_record: u64,
    /// Largest number of bytes that are made for each byte of a record.
    made_per_byte: u64,
    max_record: u64,
}

impl Fields {
    /// The fields that the option names. An error is a message for the operator.
    pub(crate) fn new(text: &str, max_record: u64) -> Result<Self, String> {
        let both = FIELDS.parse(text)?.into_iter().map(wanted).collect::<Result<Vec<_>, _>>()?;
        let (paths, mut wanted): (Vec<_>, Vec<_>) = both.into_iter().unzip();
        let names = wanted.iter().map(|one: &WantedField| (&*one.name, &*one.selector));
        FIELDS.check_names(&[], names)?;
        let scanner = Scanner::new(&paths);
        for (wanted, path) in wanted.iter_mut().zip(&paths) {
            wanted.node = scanner.node(path);
        }
        let made = wanted.iter().map(|one| one.made_bytes() + size_of::<u64>() as u64);
        Ok(Self {
            whole: wanted.iter().any(|one| one.node == PointerTree::ROOT),
            made_per_record: made.sum(),
            // A number of one byte becomes an int64.
            made_per_byte: if wanted.iter().any(|one| one.array.is_some()) { 8 } else { 0 },
            wanted,
            scanner,
            max_record,
        })
    }

    pub(crate) fn schema(&self) -> Vec<Field> {
        self.wanted.iter().map(WantedField::field).collect()
    }

    /// Begins a chunk.
    pub(crate) fn begin_chunk(&mut self) {
        self.scanner.begin_chunk();
    }

    /// Finds the wanted values of the record at `at`. Returns its end, or `None` if it is
    /// incomplete or invalid.
    #[inline(always)]
    pub(crate) fn scan(&mut self, chunk: &[u8], at: usize) -> Option<usize> {
        self.scanner.record(chunk, at)
    }

    /// Emits the record from `start` to `end`, which was the last one scanned. Returns the number
    /// of bytes that were made, or more.
    ///
    /// # Errors
    /// The record lacks a field, or has another value for it; the error is a message.
    #[inline(always)]
    pub(crate) fn emit(
        &self,
        chunk: &[u8],
        start: usize,
        end: usize,
        out: &mut Records,
    ) -> Result<u64, String> {
        let record = &chunk[start..end];
        if !self.whole && !format::is_container(record[0]) {
            return Err(errors::no_fields(record));
        }
        let room = Cell::new(self.max_record);
        for wanted in &self.wanted {
            let range = self.scanner.value_of(wanted.node, start);
            if let Err(error) = wanted.emit(chunk, range, &room, out) {
                out.abandon_record();
                return Err(errors::invalid_field(chunk, start, wanted, self.max_record, &error));
            }
        }
        out.end_record(start);
        Ok(self.made_per_record + self.made_per_byte * record.len() as u64)
    }
}

/// The wanted field of a spec, and the keys to its value. Its node is set later.
fn wanted(spec: FieldSpec) -> Result<(Vec<String>, WantedField), String> {
    let path = keys(&spec.selector)?;
    let name = field_name(&FIELDS, &spec, &path)?;
    let field_type = FIELDS.required_type(&spec)?;
    let array = array_size(&FIELDS, &spec, &field_type.shape)?;
    let FieldSpec { selector, optional, .. } = spec;
    Ok((path, WantedField::new(name, selector, field_type, array, optional)))
}

/// The keys of a selector: a key, or a JSON pointer.
fn keys(selector: &str) -> Result<Vec<String>, String> {
    if !selector.is_empty() && !selector.contains('/') {
        return Ok(vec![selector.to_owned()]);
    }
    if selector.is_empty() || selector.starts_with('/') {
        let keys = pointer_keys(selector).ok_or_else(|| {
            format!(
                "option `fields` takes keys, as \"text\", or JSON pointers, as \"/meta/id\" (in their keys, \
                 ~0 stands for a tilde and ~1 for a slash), not {selector:?}"
            )
        })?;
        if keys.len() > MAX_KEYS {
            return Err(format!(
                "option `fields`: a pointer has at most {MAX_KEYS} keys, and `{selector}` has {}",
                keys.len()
            ));
        }
        return Ok(keys);
    }
    Err(format!(
        "option `fields`: `{selector}` may be a key or a path; write \"/{selector}\" for the path, or \
         \"/{}\" for the key",
        selector.replace('~', "~0").replace('/', "~1")
    ))
}
