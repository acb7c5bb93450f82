//! The option `columns`: the columns of the file that become fields of a record.

use pipemill_parsing::field_spec::SpecOption;
use pipemill_plugin::Options;

const COLUMNS: SpecOption = SpecOption {
    name: "columns",
    example: "id,name=user.name",
    types: &[],
    logical_types: &[],
    sized_bytes: false,
    lists: false,
};

/// A column that the operator names.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// Its name in the record, if it differs.
    pub(crate) name: Option<String>,
    /// The path to it in the schema: names separated by dots.
    pub(crate) path: String,
}

/// The columns that the operator names; `None` for all. An error is a message for the operator.
pub(crate) fn wanted(options: &Options) -> Result<Option<Vec<Wanted>>, String> {
    let Some(text) = options.get("columns") else { return Ok(None) };
    if let Some(sign) = text.chars().find(|sign| matches!(sign, ':' | '?' | '[')) {
        return Err(format!(
            "option `columns` takes names of columns, as in {:?}, and no `{sign}`: their types are \
             in the file's schema",
            COLUMNS.example
        ));
    }
    let specs = COLUMNS.parse(text)?;
    if let Some(empty) = specs.iter().find(|spec| spec.selector.is_empty()) {
        let name = empty.name.as_deref().unwrap_or_default();
        return Err(format!("option `columns`: `{name}=` names no column of the file"));
    }
    let wanted = specs.into_iter().map(|spec| Wanted { name: spec.name, path: spec.selector });
    Ok(Some(wanted.collect()))
}
