//! The option `fields`: the values of a line that become fields.

use std::ops::Range;

use pipemill_parsing::field_spec::{FieldSpec, FieldType, SpecOption};
use pipemill_parsing::pointers::{PointerTree, array_size, field_name, pointer_keys};
use pipemill_plugin::{DecodeError, Field, Records, Scalar};

use crate::convert::WantedField;
use crate::errors;
use crate::parser::{JsonValue, parse};

const FIELDS: SpecOption = SpecOption {
    name: "fields",
    example: "id=/meta/id:int64,/text:utf8?,/vec:float32[128]",
    types: &[
        Scalar::Bytes,
        Scalar::Utf8,
        Scalar::Boolean,
        Scalar::Int32,
        Scalar::Int64,
        Scalar::Float32,
        Scalar::Float64,
    ],
    logical_types: &[],
    sized_bytes: false,
    lists: false,
};

/// The wanted fields, and their values in one line.
#[derive(Debug)]
pub(crate) struct Fields {
    wanted: Vec<WantedField>,
    tree: PointerTree,
    /// The value of each node of the tree, in the line that was checked last.
    found: Vec<Option<JsonValue>>,
}

impl Fields {
    /// The fields that the option names. An error is a text for the operator.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        let both = FIELDS.parse(text)?.into_iter().map(wanted).collect::<Result<Vec<_>, _>>()?;
        let (paths, mut wanted): (Vec<_>, Vec<_>) = both.into_iter().unzip();
        let names = wanted.iter().map(|one: &WantedField| (&*one.name, &*one.pointer));
        FIELDS.check_names(&[], names)?;
        let tree = PointerTree::new(&paths);
        for (wanted, path) in wanted.iter_mut().zip(&paths) {
            wanted.node = tree.at(path);
        }
        let found = vec![None; tree.count()];
        Ok(Self { wanted, tree, found })
    }

    /// No fields, for lines that are only checked.
    pub(crate) fn none() -> Self {
        let tree = PointerTree::new(&[]);
        Self { wanted: Vec::new(), found: vec![None; tree.count()], tree }
    }

    pub(crate) fn schema(&self) -> Vec<Field> {
        self.wanted.iter().map(WantedField::field).collect()
    }

    /// Checks that a line is valid JSON, and finds the wanted values in it. The next line starts at
    /// `next`.
    #[inline]
    pub(crate) fn check(
        &mut self,
        chunk: &[u8],
        line: &Range<usize>,
        next: usize,
    ) -> Result<(), DecodeError> {
        parse(chunk, line.clone(), &self.tree, &mut self.found)
            .map_err(|error| errors::invalid_json(chunk, line, next, error))
    }

    /// Emits the wanted values of the line that was checked last.
    #[inline]
    pub(crate) fn emit(
        &self,
        chunk: &[u8],
        line: &Range<usize>,
        next: usize,
        out: &mut Records,
    ) -> Result<(), DecodeError> {
        for wanted in &self.wanted {
            if let Err(error) = wanted.emit(chunk, self.found[wanted.node], out) {
                out.abandon_record();
                return Err(errors::invalid_field(chunk, line, next, wanted, error));
            }
        }
        out.end_record(line.start);
        Ok(())
    }
}

/// The wanted field of a spec, and the keys of its pointer. Its node is set later.
fn wanted(spec: FieldSpec) -> Result<(Vec<String>, WantedField), String> {
    let pointer = &spec.selector;
    let path = pointer_keys(pointer).ok_or_else(|| {
        format!(
            "option `fields` takes JSON pointers, as \"/text\" or \"/meta/id\" (in keys, ~0 stands for \
             a tilde and ~1 for a slash), not {pointer:?}"
        )
    })?;
    let name = field_name(&FIELDS, &spec, &path)?;
    let FieldType { scalar, shape, .. } = FIELDS.required_type(&spec)?;
    let array = array_size(&FIELDS, &spec, &shape)?;
    let FieldSpec { selector: pointer, optional, .. } = spec;
    Ok((path, WantedField { name, pointer, scalar, array, optional, node: 0 }))
}
