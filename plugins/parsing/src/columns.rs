//! The columns of a file that become fields of a record: all, or those that an option selects by
//! their [paths](crate::paths).

use std::collections::BTreeSet;

use pipemill_plugin::Field;

use crate::paths::WantedPath;

/// Largest number of fields of a record: the host's limit.
const MAX_FIELDS: usize = 65_536;
/// Largest number of columns that a message lists.
const MAX_LISTED: usize = 20;

/// The error of a list with an absent element.
pub const NULL_ELEMENT: &str = "a list has an element that is null, which a field can't hold; \
                                leave the column out by the option `columns`";

/// A column that may become a field: its path, and the column, or what it is if it can't be one.
pub type Found<C> = (String, Result<C, String>);

/// A column that becomes a field.
pub trait IsField: Clone {
    /// The field.
    fn field(&self) -> &Field;
    /// Gives the field another name.
    fn rename(&mut self, name: &str);
}

/// The columns that become fields, in the order of `wanted`, or of the file.
///
/// # Errors
/// The error is a message for the operator.
pub fn select<C: IsField>(
    found: &[Found<C>],
    wanted: Option<&[WantedPath]>,
) -> Result<Vec<C>, String> {
    let columns = match wanted {
        None => found.iter().map(|one| take(one, found)).collect::<Result<Vec<_>, _>>()?,
        Some(wanted) => selected(found, wanted)?,
    };
    let mut names = BTreeSet::new();
    if let Some(twice) = columns.iter().find(|one| !names.insert(&one.field().name)) {
        let name = &twice.field().name;
        return Err(format!("two fields are called `{name}`; see the option `columns`"));
    }
    match columns.len() {
        0 => Err("the file has no columns".to_owned()),
        more if more > MAX_FIELDS => {
            Err(format!("the file has more than {MAX_FIELDS} columns; see the option `columns`"))
        }
        _ => Ok(columns),
    }
}

fn take<C: IsField>(one: &Found<C>, all: &[Found<C>]) -> Result<C, String> {
    one.1.clone().map_err(|what| {
        let can = all.iter().filter(|(_, found)| found.is_ok()).map(|(path, _)| path.as_str());
        let can: Vec<_> = can.take(MAX_LISTED).collect();
        let others = match can.is_empty() {
            true => String::new(),
            false => format!(", as in columns = \"{}\"", can.join(",")),
        };
        format!(
            "the column `{}` is {what}, which can't be a field of a record; leave it out by the \
             option `columns`{others}",
            one.0
        )
    })
}

/// The columns that the operator names. The name of a group stands for all of its columns.
fn selected<C: IsField>(found: &[Found<C>], wanted: &[WantedPath]) -> Result<Vec<C>, String> {
    let mut columns = Vec::new();
    for WantedPath { name, path } in wanted {
        let is_inside = |one: &&Found<C>| {
            one.0
                .strip_prefix(path.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let inside: Vec<_> = found.iter().filter(is_inside).collect();
        if inside.is_empty() {
            let names: Vec<_> = found.iter().take(MAX_LISTED).map(|one| one.0.as_str()).collect();
            let more = if found.len() > MAX_LISTED { ", …" } else { "" };
            let names = names.join(", ");
            return Err(format!(
                "option `columns`: the file has no column `{path}`; it has {names}{more}"
            ));
        }
        for one in &inside {
            let mut column = take(one, found)?;
            if let Some(name) = name {
                if one.0 != *path {
                    return Err(format!(
                        "option `columns`: `{path}` is a group, which gets no other name: name its \
                         columns"
                    ));
                }
                column.rename(name);
            }
            columns.push(column);
        }
    }
    Ok(columns)
}
