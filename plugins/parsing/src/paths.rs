//! An option that selects fields by their paths in a file's schema, as in `id,name=user.name`: for
//! formats whose files say the types of their fields.

use pipemill_plugin::Options;

use crate::field_spec::SpecOption;

/// A valid list.
const EXAMPLE: &str = "id,name=user.name";

/// A field that the operator names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedPath {
    /// Its name in the record, if it differs.
    pub name: Option<String>,
    /// The path to it in the schema: names separated by dots.
    pub path: String,
}

/// The fields that the option `name` selects; `None` for all. `what` is the format's word for one of
/// them.
///
/// # Errors
/// The error is a message for the operator.
pub fn wanted_paths(
    options: &Options,
    name: &str,
    what: &str,
) -> Result<Option<Vec<WantedPath>>, String> {
    let option = SpecOption {
        name,
        example: EXAMPLE,
        types: &[],
        logical_types: &[],
        sized_bytes: false,
        lists: false,
    };
    let Some(text) = options.get(name) else { return Ok(None) };
    if let Some(sign) = text.chars().find(|sign| matches!(sign, ':' | '?' | '[')) {
        return Err(format!(
            "option `{name}` takes names of {what}s, as in {EXAMPLE:?}, and no `{sign}`: their types \
             are in the file's schema"
        ));
    }
    let specs = option.parse(text)?;
    if let Some(empty) = specs.iter().find(|spec| spec.selector.is_empty()) {
        let of = empty.name.as_deref().unwrap_or_default();
        return Err(format!("option `{name}`: `{of}=` names no {what} of the file"));
    }
    let names = specs.iter().map(|spec| {
        let name = spec.name.as_deref().unwrap_or(&spec.selector);
        (name, spec.selector.as_str())
    });
    option.check_names(&[], names)?;
    let wanted = specs.into_iter().map(|spec| WantedPath { name: spec.name, path: spec.selector });
    Ok(Some(wanted.collect()))
}
