//! The option `fields`: which values of a line become which fields.

use std::ops::Range;

use pipemill_parsing::field_spec::{Entry, Kind, List};
use pipemill_plugin::{DecodeError, Field, Records, Scalar};

use crate::convert::Wanted;
use crate::errors;
use crate::tree::{Tree, path};
use crate::walk::{Value, walk};

/// How the option is written.
const LIST: List = List {
    option: "fields",
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
    long_bytes: false,
};

/// The wanted fields, and what was found of them in a line.
#[derive(Debug)]
pub(crate) struct Fields {
    wanted: Vec<Wanted>,
    tree: Tree,
    /// For each node of the tree, the value found.
    found: Vec<Option<Value>>,
}

impl Fields {
    /// The fields that the option names.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        let both = LIST.parse(text)?.into_iter().map(wanted).collect::<Result<Vec<_>, _>>()?;
        let (paths, mut wanted): (Vec<_>, Vec<_>) = both.into_iter().unzip();
        let named = wanted.iter().map(|one: &Wanted| (one.name.as_str(), one.pointer.as_str()));
        LIST.distinct(&[], named)?;
        let tree = Tree::new(&paths);
        for (wanted, path) in wanted.iter_mut().zip(&paths) {
            wanted.node = tree.at(path);
        }
        let found = vec![None; tree.len()];
        Ok(Self { wanted, tree, found })
    }

    /// No fields: for lines that are only checked.
    pub(crate) fn none() -> Self {
        let tree = Tree::new(&[]);
        Self { wanted: Vec::new(), found: vec![None; tree.len()], tree }
    }

    pub(crate) fn schema(&self) -> Vec<Field> {
        self.wanted.iter().map(Wanted::field).collect()
    }

    /// Checks a line, and finds in it what is wanted. Behind it, at `next`, decoding can go on.
    #[inline]
    pub(crate) fn walk(
        &mut self,
        chunk: &[u8],
        line: &Range<usize>,
        next: usize,
    ) -> Result<(), DecodeError> {
        walk(chunk, line.clone(), &self.tree, &mut self.found)
            .map_err(|fault| errors::no_json(chunk, line, next, fault))
    }

    /// Emits what was found in the line last walked over.
    #[inline]
    pub(crate) fn emit(
        &self,
        chunk: &[u8],
        line: &Range<usize>,
        next: usize,
        out: &mut Records,
    ) -> Result<(), DecodeError> {
        for wanted in &self.wanted {
            if let Err(wrong) = wanted.emit(chunk, self.found[wanted.node], out) {
                out.abandon_record();
                return Err(errors::no_value(chunk, line, next, wanted, wrong));
            }
        }
        out.end_record(line.start);
        Ok(())
    }
}

/// A field, and the path to it. Which node of the tree that is, is not known yet.
fn wanted(entry: Entry) -> Result<(Vec<String>, Wanted), String> {
    let kind = LIST.kind_of(&entry);
    let Entry { name, what: pointer, optional, .. } = entry;
    let path = path(&pointer).ok_or_else(|| {
        format!(
            "option `fields` takes JSON pointers, as \"/text\" or \"/meta/id\" (in keys, ~0 stands for \
             a tilde and ~1 for a slash), not {pointer:?}"
        )
    })?;
    let name = name.or_else(|| path.last().cloned()).filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| {
        format!("option `fields`: `{pointer}` gives no name; put one before it, as in \"name={pointer}\"")
    })?;
    let Kind { scalar, shape } = kind?;
    let array = match shape[..] {
        [] => None,
        [size] => Some(size),
        _ => {
            return Err(format!(
                "option `fields`: `{pointer}` can't be an array in rows; arrays have one size, as in \
                 \"{pointer}:float32[128]\", or any, as in \"{pointer}:int64[]\""
            ));
        }
    };
    Ok((path, Wanted { name, pointer, scalar, array, optional, node: 0 }))
}
