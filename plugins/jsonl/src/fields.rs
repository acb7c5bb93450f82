//! The option `fields`: the values of a line that become fields.

use std::ops::Range;

use pipemill_parsing::field_spec::{FieldSpec, SpecOption};
use pipemill_parsing::json::{JsonField, JsonValues, SCALARS};
use pipemill_parsing::pointers::{field_name, pointer_keys};
use pipemill_plugin::{DecodeError, Field, Records};

use crate::errors;

const FIELDS: SpecOption = SpecOption {
    name: "fields",
    example: "id=/meta/id:int64,/text:utf8?,/vec:float32[128]",
    types: SCALARS,
    logical_types: &[],
    sized_bytes: false,
    lists: true,
};

/// The wanted fields, and their values in one line.
#[derive(Debug)]
pub(crate) struct Fields {
    wanted: Vec<JsonField>,
    /// The values of the last line that was checked.
    values: JsonValues,
}

impl Fields {
    /// The fields that the option names. `nan` is the option of this name. An error is a message
    /// for the operator.
    pub(crate) fn new(text: &str, nan: bool) -> Result<Self, String> {
        let specs = FIELDS.parse(text)?;
        let pointers = specs.iter().map(pointer).collect::<Result<Vec<_>, _>>()?;
        let values = JsonValues::new(&pointers).with_nan(nan);
        let fields = specs.into_iter().zip(&pointers);
        let fields = fields.map(|(spec, keys)| wanted(spec, keys, values.node(keys)));
        let fields = fields.map(|field| field.map(|field| field.with_nan(nan)));
        let wanted = fields.collect::<Result<Vec<_>, _>>()?;
        FIELDS.check_names(&[], wanted.iter().map(|one| (&*one.name, &*one.selector)))?;
        Ok(Self { wanted, values })
    }

    /// No fields, for lines that are only checked.
    pub(crate) fn none(nan: bool) -> Self {
        Self { wanted: Vec::new(), values: JsonValues::new(&[]).with_nan(nan) }
    }

    pub(crate) fn schema(&self) -> Vec<Field> {
        self.wanted.iter().map(JsonField::field).collect()
    }

    /// Checks that the line that starts here is valid JSON, and finds the wanted values in it.
    /// Returns the line, and the start of the next one. `None` if the line is not plain: see
    /// [`check`](Self::check).
    #[inline]
    pub(crate) fn plain_line(
        &mut self,
        chunk: &[u8],
        start: usize,
    ) -> Option<(Range<usize>, usize)> {
        self.values.parse_line(chunk, start)
    }

    /// Checks that a line is valid JSON, and finds the wanted values in it. The next line starts at
    /// `next`.
    pub(crate) fn check(
        &mut self,
        chunk: &[u8],
        line: &Range<usize>,
        next: usize,
    ) -> Result<(), DecodeError> {
        self.values
            .parse_slowly(chunk, line.clone())
            .map_err(|error| errors::invalid_json(chunk, line, next, error))
    }

    /// Emits the wanted values of the last line that was checked.
    #[inline]
    pub(crate) fn emit(
        &self,
        chunk: &[u8],
        line: &Range<usize>,
        next: usize,
        out: &mut Records,
    ) -> Result<(), DecodeError> {
        for wanted in &self.wanted {
            if let Err(error) = wanted.emit(chunk, self.values.get(wanted.node()), out) {
                out.abandon_record();
                return Err(errors::invalid_field(chunk, line, next, wanted, error));
            }
        }
        out.end_record(line.start);
        Ok(())
    }
}

/// The keys of a spec's pointer.
fn pointer(spec: &FieldSpec) -> Result<Vec<String>, String> {
    pointer_keys(&spec.selector).ok_or_else(|| {
        format!(
            "option `fields` takes JSON pointers, as \"/text\" or \"/meta/id\" (in keys, ~0 stands for \
             a tilde and ~1 for a slash), not {:?}",
            spec.selector
        )
    })
}

/// The wanted field of a spec.
fn wanted(spec: FieldSpec, keys: &[String], node: usize) -> Result<JsonField, String> {
    let name = field_name(&FIELDS, &spec, keys)?;
    let field_type = FIELDS.required_type(&spec)?;
    let FieldSpec { selector: pointer, optional, .. } = spec;
    JsonField::new(name, pointer, &field_type, optional, node)
}
