//! The columns of a shard, and which of them become fields.

use pipemill_parsing::columns::{Found, IsField, select};
use pipemill_parsing::json_tree::Json;
use pipemill_parsing::paths::WantedPath;
use pipemill_plugin::{DecodeError, Field, Scalar};

use crate::encoding::{Form, encoding};

/// Largest number of columns that a message lists.
const MAX_LISTED: usize = 20;

/// The columns of a shard.
#[derive(Debug)]
pub(crate) struct Columns {
    pub(crate) columns: Vec<Column>,
    /// Number of the columns whose values have sizes of their own.
    pub(crate) sized: usize,
    /// What becomes a field, in the order of the fields.
    pub(crate) emitted: Vec<Emitted>,
    fields: Vec<Field>,
}

/// A column.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// Bytes of each value, if the shard says it for all.
    pub(crate) size: Option<u32>,
}

/// A field of a record: the value of a column, or the shape of an array.
#[derive(Debug, Clone)]
pub(crate) struct Emitted {
    field: Field,
    /// The number of the column.
    pub(crate) column: usize,
    pub(crate) form: Form,
}

impl IsField for Emitted {
    fn field(&self) -> &Field {
        &self.field
    }
    fn rename(&mut self, name: &str) {
        name.clone_into(&mut self.field.name);
    }
}

impl Columns {
    /// Reads the description of a shard.
    pub(crate) fn read(json: &Json, wanted: Option<&[WantedPath]>) -> Result<Self, DecodeError> {
        let list = |key: &str| {
            let list = json.get(key).and_then(Json::as_list);
            list.ok_or_else(|| {
                let why =
                    format!("expected a list `{key}` in the description of the shard's columns");
                DecodeError::fatal(0, why)
            })
        };
        let [names, encodings, sizes] =
            [list("column_names")?, list("column_encodings")?, list("column_sizes")?];
        if names.len() != encodings.len() || names.len() != sizes.len() {
            let (names, encodings, sizes) = (names.len(), encodings.len(), sizes.len());
            let why = format!(
                "expected an encoding and a size of each of the {names} columns, found {encodings} \
                 encodings and {sizes} sizes"
            );
            return Err(DecodeError::fatal(0, why));
        }
        let (mut columns, mut found) = (Vec::new(), Vec::new());
        for (number, ((name, text), size)) in names.iter().zip(encodings).zip(sizes).enumerate() {
            let (Some(name), Some(text)) = (name.as_text(), text.as_text()) else {
                let why = format!("expected texts as the name and the encoding of column {number}");
                return Err(DecodeError::fatal(0, why));
            };
            // A size of 0 means the same as none.
            let size = size.as_number().filter(|size| *size > 0);
            let size = size.map(|size| u32::try_from(size).unwrap_or(u32::MAX));
            found.extend(fields_of(name, text, number, size));
            columns.push(Column { name: name.to_owned(), size });
        }
        let refused = |why: String| DecodeError::refused(0, why);
        let emitted = match wanted {
            None => select(&found, None),
            Some(wanted) => {
                let chosen: Result<Vec<_>, _> =
                    wanted.iter().map(|path| choose(&found, path)).collect();
                chosen.and_then(|chosen| select(&chosen, None))
            }
        };
        let emitted = emitted.map_err(refused)?;
        let fields = emitted.iter().map(|one| one.field.clone()).collect();
        let sized = columns.iter().filter(|column| column.size.is_none()).count();
        Ok(Self { columns, sized, emitted, fields })
    }

    pub(crate) fn fields(&self) -> &[Field] {
        &self.fields
    }
}

/// What a column becomes, by its name: a field, two for an array with a shape, or none.
fn fields_of(name: &str, text: &str, number: usize, size: Option<u32>) -> Vec<Found<Emitted>> {
    let (field, form) = match encoding(text) {
        Ok(found) => found,
        Err(what) => return vec![(name.to_owned(), Err(what))],
    };
    if let (Form::Fixed(expected), Some(found)) = (form, size)
        && found as usize != expected
    {
        let what = format!("of the encoding `{text}` with {found} bytes, not {expected}");
        return vec![(name.to_owned(), Err(what))];
    }
    let of = |name: String, field: Field, form| {
        let field = Field { name: name.clone(), ..field };
        (name, Ok(Emitted { field, column: number, form }))
    };
    let mut found = vec![of(name.to_owned(), field, form)];
    if let Form::Array { item } = form {
        let shape = Field::new("", Scalar::Uint64).list();
        found.push(of(format!("{name}.shape"), shape, Form::Shape { item }));
    }
    found
}

/// The field that the operator names.
fn choose(found: &[Found<Emitted>], wanted: &WantedPath) -> Result<Found<Emitted>, String> {
    let WantedPath { name, path } = wanted;
    let one = found.iter().find(|(known, _)| known == path).ok_or_else(|| {
        let names: Vec<_> = found.iter().take(MAX_LISTED).map(|one| one.0.as_str()).collect();
        let more = if found.len() > MAX_LISTED { ", …" } else { "" };
        let names = names.join(", ");
        format!("option `columns`: the shard has no column `{path}`; it has {names}{more}")
    })?;
    let mut one = one.clone();
    if let (Ok(emitted), Some(name)) = (&mut one.1, name) {
        emitted.rename(name);
    }
    Ok(one)
}
