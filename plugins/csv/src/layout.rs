//! The columns of an object: their names, and which of them are emitted with which type.

use pipemill_plugin::{Field, Scalar};

use crate::delimiter_hint;
use crate::names;
use crate::settings::{Emit, Settings};

/// The columns of an object.
#[derive(Debug)]
pub(crate) struct Layout {
    /// The name of each column of a row.
    pub(crate) names: Vec<String>,
    /// The source of the number of columns, for messages: "the header has".
    pub(crate) source: String,
    /// Whether the option `names` gives the columns.
    pub(crate) are_named: bool,
    /// The columns that are emitted, in the order of the fields. With `emit = "dense"`, they are
    /// the columns of `x`.
    pub(crate) picks: Vec<Pick>,
    /// The column of the field `y`.
    pub(crate) label: Option<usize>,
    /// Whether all columns are emitted, in the order of the row.
    pub(crate) all: bool,
    /// The fields of a record.
    pub(crate) fields: Vec<Field>,
    /// Whether the types of the columns, except those that the option `types` names, follow from the
    /// first rows.
    pub(crate) types_are_learnt: bool,
}

/// The names of the columns, and their source.
#[derive(Debug, Default)]
pub(crate) struct ColumnNames {
    pub(crate) names: Vec<String>,
    /// The source of the number of columns, for messages: "the header has".
    pub(crate) source: String,
    /// The names in the object's own header, if it has one.
    pub(crate) header: Option<Vec<String>>,
}

/// A column that is emitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pick {
    pub(crate) column: usize,
    pub(crate) scalar: Scalar,
    /// Whether the type comes from the first rows, and not from an option.
    pub(crate) is_learnt: bool,
}

impl Layout {
    /// The layout for columns with these names. `learnt` is the type of each column according to
    /// the first rows; missing types are text. An error is a message for the operator.
    pub(crate) fn new(
        settings: &Settings,
        columns: ColumnNames,
        learnt: &[Scalar],
    ) -> Result<Self, String> {
        let ColumnNames { names, source, header } = columns;
        let label = match &settings.label {
            Some(label) => Some(find(settings, &names, label, "label")?),
            None => None,
        };
        let of_column = |column| {
            let learnt = || learnt.get(column).copied().unwrap_or(Scalar::Utf8);
            settings.types.default.unwrap_or_else(learnt)
        };
        let mut scalars: Vec<_> = (0..names.len()).map(of_column).collect();
        let mut typed = Vec::new();
        for (column, scalar) in &settings.types.named {
            let column = find(settings, &names, column, "types")?;
            scalars[column] = *scalar;
            typed.push(column);
        }
        let columns: Vec<usize> = match &settings.columns {
            Some(columns) => {
                let find = |column: &String| find(settings, &names, column, "columns");
                columns.iter().map(find).collect::<Result<_, _>>()?
            }
            None => (0..names.len()).filter(|column| Some(*column) != label).collect(),
        };
        let types_are_learnt = settings.types.default.is_none();
        let pick = |column: usize| {
            let is_learnt = types_are_learnt && !typed.contains(&column);
            Pick { column, scalar: scalars[column], is_learnt }
        };
        let picks: Vec<_> = columns.into_iter().map(pick).collect();
        let mut fields = match settings.emit {
            Emit::Fields => fields(&names, &picks, settings)?,
            Emit::Row => vec![Field::bytes("row")],
            Emit::Dense => dense(settings, &picks),
        };
        if let Some(header) = header {
            let label = label.map(|label| names[label].as_str());
            say_header(settings, &header, &names, &picks, label, &mut fields);
        }
        let all = settings.columns.is_none();
        let are_named = settings.names.is_some();
        Ok(Self { names, source, are_named, picks, label, all, fields, types_are_learnt })
    }

    /// The name of a column in the option `types`: its name, or its number if the option can't
    /// express the name.
    pub(crate) fn name_in_types(&self, column: usize) -> String {
        let name = &self.names[column];
        let is_unique = self.names.iter().filter(|other| *other == name).count() == 1;
        if is_unique && name.trim() == name && !name.contains([',', '"', '\n']) {
            name.clone()
        } else {
            column.to_string()
        }
    }
}

/// Adds the names of a header to fields that do not have these names, so that the host compares
/// them with those of earlier objects.
fn say_header(
    settings: &Settings,
    header: &[String],
    names: &[String],
    picks: &[Pick],
    label: Option<&str>,
    fields: &mut [Field],
) {
    let fact = |key: &str, value: String| (key.to_owned(), value);
    if settings.emit == Emit::Dense {
        let columns = picks.iter().map(|pick| names[pick.column].as_str());
        fields[0].metadata.push(fact("columns", names::as_fact(columns)));
        if let (Some(label), [_, y]) = (label, &mut *fields) {
            y.metadata.push(fact("columns", names::as_fact([label].into_iter())));
        }
    }
    if let ([first, ..], true) = (fields, settings.names.is_some() || settings.emit == Emit::Row) {
        first.metadata.push(fact("header", names::as_fact(header.iter().map(String::as_str))));
    }
}

/// The column that an option names: by its name, otherwise by its number.
fn find(
    settings: &Settings,
    names: &[String],
    wanted: &str,
    option: &str,
) -> Result<usize, String> {
    let mut named = (0..names.len()).filter(|column| names[*column] == wanted);
    let number = || wanted.parse().ok().filter(|number| *number < names.len());
    match (named.next(), named.next()) {
        (Some(column), None) => Ok(column),
        (None, _) => number().ok_or_else(|| {
            let some: Vec<_> = names.iter().take(20).map(|name| name.as_str()).collect();
            let more = if names.len() > 20 { ", …" } else { "" };
            let there_are = match names {
                [only] => {
                    let hint = match settings.names {
                        Some(_) => String::new(),
                        None => delimiter_hint::of_only_column(&settings.dialect, only),
                    };
                    format!("the only column is `{only}`{hint}")
                }
                _ => format!("the {} columns are: {}{more}", names.len(), some.join(", ")),
            };
            format!("option `{option}`: there is no column `{wanted}`; {there_are}")
        }),
        (Some(one), Some(other)) => Err(format!(
            "option `{option}`: columns {one} and {other} are both called `{wanted}`; use the number"
        )),
    }
}

/// The interface allows no more fields.
const MAX_FIELDS: usize = 65_536;
/// The interface allows no larger schema.
const MAX_SCHEMA_BYTES: usize = 4 << 20;
/// Each of a field's three texts counts this many bytes beyond its own.
const TEXT_BYTES: usize = 32;
/// The advice for too many columns.
const TOO_MANY: &str = "choose some by `columns`, or set `emit` to dense or row";

fn fields(names: &[String], picks: &[Pick], settings: &Settings) -> Result<Vec<Field>, String> {
    if picks.len() > MAX_FIELDS {
        return Err(format!(
            "{} columns are more fields than a record may have, {MAX_FIELDS}; {TOO_MANY}",
            picks.len()
        ));
    }
    let bytes = |pick: &Pick| names[pick.column].len() + pick.scalar.word().len() + 3 * TEXT_BYTES;
    let bytes: usize = picks.iter().map(bytes).sum();
    if bytes > MAX_SCHEMA_BYTES {
        return Err(format!(
            "{} columns with their names take {bytes} bytes as the fields of a record, which may \
             take {MAX_SCHEMA_BYTES}; {TOO_MANY}",
            picks.len()
        ));
    }
    let mut at = std::collections::BTreeMap::new();
    for pick in picks {
        let name = &names[pick.column];
        if let Some(other) = at.insert(name, pick.column) {
            return Err(format!(
                "columns {other} and {} are both called `{name}`, and fields must differ in name; set \
                 rename_duplicates = true, give others by `names`, or leave one out by `columns`",
                pick.column
            ));
        }
    }
    // An empty number is absent, and so are a null word and a column that a short row lacks.
    let may_lack = settings.flexible || !settings.null.is_empty();
    let field = |pick: &Pick| {
        let nullable = may_lack || !matches!(pick.scalar, Scalar::Bytes | Scalar::Utf8);
        Field { nullable, ..Field::new(&names[pick.column], pick.scalar) }
    };
    Ok(picks.iter().map(field).collect())
}

fn dense(settings: &Settings, picks: &[Pick]) -> Vec<Field> {
    // If rows have any length, so has `x`.
    let any_width = settings.flexible && settings.columns.is_none();
    let width = if any_width { 0 } else { picks.len() as u32 };
    let mut fields = vec![Field::new("x", Scalar::Float32).shaped([width])];
    if settings.label.is_some() {
        fields.push(Field::new("y", Scalar::Float32));
    }
    fields
}
