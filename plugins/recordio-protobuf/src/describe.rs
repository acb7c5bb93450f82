//! The messages for a refused record: what was expected, what was found, and what to write in the
//! options.

use pipemill_parsing::field_spec::{display_type, type_name};
use pipemill_parsing::protobuf::{MessageReader, WireError, read_map_entry};
use pipemill_plugin::Scalar;

use crate::column_form::ColumnForm;
use crate::record::{Record, RecordBytes};
use crate::settings::Column;
use crate::tensor::Tensor;

/// The reason why a record is refused.
#[derive(Debug)]
pub(crate) enum Refused {
    /// It is an invalid message. `at` counts from the start of the record.
    Invalid { at: usize, joined: bool, error: WireError },
    /// It does not have the fields that the options or the first record require. The text is the
    /// error message.
    Mismatch(String),
}

/// Number of a record's keys that a message lists.
const MAX_LISTED: usize = 20;

impl Refused {
    #[cold]
    pub(crate) fn invalid(error: WireError, source: &RecordBytes) -> Self {
        Self::Invalid { at: error.at - source.base, joined: !source.in_chunk, error }
    }

    pub(crate) fn message(self) -> String {
        match self {
            Self::Mismatch(message) => message,
            Self::Invalid { at, joined, error } => {
                let of = if joined { " of its joined parts" } else { "" };
                format!(
                    "expected an aialgs.data.Record, found at +{at}{of} {error}; the record is \
                     damaged, or of another type"
                )
            }
        }
    }
}

/// The name of a column in messages: "feature `values`" or "label `values`".
fn display_column(column: &Column) -> String {
    let map = if column.option == "features" { "feature" } else { "label" };
    format!("{map} `{}`", column.key)
}

/// The type and shape of a tensor, as an operator writes them; in words if there is no such type.
fn display_tensor(column: &Column, tensor: &Tensor) -> String {
    let Some(scalar) = tensor.scalar else { return "nothing".to_owned() };
    let (count, shape) = (tensor.count, &tensor.shape);
    let size = u32::try_from(count).unwrap_or(u32::MAX);
    match scalar {
        Scalar::Bytes if count == 1 => "bytes".to_owned(),
        Scalar::Bytes => format!("{count} values of bytes"),
        scalar if tensor.is_sparse() => {
            let name = type_name(scalar);
            format!("a sparse tensor of {name}, {count} values in the shape {shape:?}")
        }
        scalar if tensor.size().is_some_and(|size| size != count as u64) => {
            let name = type_name(scalar);
            format!("{count} values of {name} with the shape {shape:?}")
        }
        scalar if shape.len() > 1 => {
            let shape: Vec<_> = shape.iter().map(|size| *size as u32).collect();
            display_type(scalar, &shape)
        }
        scalar if count == 1 && column.option == "label" => display_type(scalar, &[]),
        scalar => display_type(scalar, &[size]),
    }
}

/// The required form of a column in words, and whether it was learned.
fn display_expected(column: &Column, form: &ColumnForm) -> String {
    let expected = match form {
        ColumnForm::Nothing => "no value".to_owned(),
        ColumnForm::Bytes => "bytes".to_owned(),
        ColumnForm::Dense(scalar, shape) => display_type(*scalar, shape),
        ColumnForm::Sparse(scalar) => format!("a sparse tensor of {}", type_name(*scalar)),
    };
    let learned = if column.field_type.is_none() { ", as in the first record" } else { "" };
    format!("{expected}{learned}")
}

/// Refuses a record whose tensor does not have the form of its column.
pub(crate) fn mismatch(
    column: &Column,
    form: &ColumnForm,
    tensor: &Tensor,
    record: &Record,
    bytes: &[u8],
) -> Refused {
    let Some(scalar) = tensor.scalar else { return missing(column, record, bytes) };
    let (expected, found) = (display_expected(column, form), display_tensor(column, tensor));
    let remedy = remedy(column, form, tensor, scalar);
    let column = display_column(column);
    Refused::Mismatch(format!("{column}: expected {expected}, found {found}; {remedy}"))
}

/// The options that the operator can write so that the column is accepted.
fn remedy(column: &Column, form: &ColumnForm, tensor: &Tensor, scalar: Scalar) -> String {
    let (key, option) = (&column.key, column.option);
    let any = display_type(scalar, &[0]);
    let same_type = match form {
        ColumnForm::Nothing => {
            return format!(
                "write {option} = \"{key}:{any}?\", or {option} = \"\" to leave it out"
            );
        }
        ColumnForm::Bytes => scalar == Scalar::Bytes,
        ColumnForm::Dense(one, _) | ColumnForm::Sparse(one) => *one == scalar,
    };
    let typed = column.field_type.is_some();
    match (form, tensor.is_sparse()) {
        _ if !same_type && !typed => "the records of an object must be of one type".to_owned(),
        _ if !same_type => {
            let form = if scalar == Scalar::Bytes { "bytes".to_owned() } else { any };
            format!("write `{key}:{form}` in the option `{option}` if that is right")
        }
        (ColumnForm::Sparse(_), _) => {
            "sparse = \"dense\" takes both, and writes out the zeros".to_owned()
        }
        (_, true) if typed => format!(
            "sparse = \"dense\" writes out the zeros of such a shape, `{key}` without a type gives \
             keys and values"
        ),
        (_, true) => "sparse = \"dense\" writes out the zeros of such a shape".to_owned(),
        _ if tensor.size().is_some_and(|size| size != tensor.count as u64) => {
            "the record contradicts itself".to_owned()
        }
        _ => format!(
            "write `{key}:{}`, or `{key}:{any}` for any number, in the option `{option}`",
            display_tensor(column, tensor)
        ),
    }
}

/// Refuses a record that lacks a feature or a label.
fn missing(column: &Column, record: &Record, bytes: &[u8]) -> Refused {
    let (option, key, column) = (column.option, &column.key, display_column(column));
    let keys = match list_keys(record, bytes) {
        Ok(keys) if keys.is_empty() => "no features and no labels".to_owned(),
        Ok(keys) => keys,
        // Never happens: the record was parsed before.
        Err(error) => error.to_string(),
    };
    Refused::Mismatch(format!(
        "{column} is missing; the record has {keys}; put a ? after `{key}` in the option `{option}` \
         if records may be without it"
    ))
}

/// The keys of a record's features and labels.
fn list_keys(record: &Record, bytes: &[u8]) -> Result<String, WireError> {
    let mut all = Vec::new();
    let mut reader = MessageReader::new(bytes, record.payload.clone());
    while let Some(field) = reader.next()? {
        let map = match field.number {
            1 => "feature",
            2 => "label",
            _ => continue,
        };
        let (key, _) = read_map_entry(bytes, field.bytes()?)?;
        all.push(format!("{map} `{}`", bytes[key].escape_ascii()));
    }
    let more = if all.len() > MAX_LISTED { ", …" } else { "" };
    all.truncate(MAX_LISTED);
    Ok(format!("{}{more}", all.join(", ")))
}

/// Refuses a first record that does not give the type and shape of a column.
#[cold]
pub(crate) fn not_learned(
    column: &Column,
    tensor: &Tensor,
    record: &Record,
    bytes: &[u8],
) -> Refused {
    if tensor.scalar.is_none() && !column.optional {
        return missing(column, record, bytes);
    }
    let (key, option) = (&column.key, column.option);
    Refused::Mismatch(format!(
        "{}: expected a tensor that tells type and shape, as this is the first record, found {}; \
         write them, as in {option} = \"{key}:float32[10]\"",
        display_column(column),
        display_tensor(column, tensor)
    ))
}

/// Refuses a list of bytes that does not have exactly one value.
#[cold]
pub(crate) fn several_bytes(column: &Column, count: usize) -> Refused {
    Refused::Mismatch(format!(
        "{}: expected one value of bytes, found {count}; a list of such values is no field: take \
         whole records with the decoder `recordio`",
        display_column(column)
    ))
}

/// Refuses a sparse tensor that has more or fewer keys than values.
#[cold]
pub(crate) fn other_keys(column: &Column, keys: usize, values: usize) -> Refused {
    Refused::Mismatch(format!(
        "{}: expected as many keys as values, found {keys} keys and {values} values; the record is \
         damaged",
        display_column(column)
    ))
}

/// Refuses a shape that does not fit into int64.
#[cold]
pub(crate) fn huge_shape(column: &Column, size: u64) -> Refused {
    Refused::Mismatch(format!(
        "{}: expected a shape below 2^63, found {size}; the record is damaged",
        display_column(column)
    ))
}

/// Refuses a sparse tensor without a shape, which is needed to write out its zeros.
#[cold]
pub(crate) fn no_shape(column: &Column) -> Refused {
    let (key, option) = (&column.key, column.option);
    Refused::Mismatch(format!(
        "{}: expected a sparse tensor with a shape, found none; write it, as in {option} = \
         \"{key}:float32[1000]\"",
        display_column(column)
    ))
}

/// Refuses a sparse tensor that is larger than `max_record` with its zeros.
#[cold]
pub(crate) fn too_large(column: &Column, bytes: u64, max: u64) -> Refused {
    Refused::Mismatch(format!(
        "{}: with its zeros, the tensor of {bytes} bytes is larger than max_record ({max} bytes); \
         raise max_record, or take keys and values: sparse = \"fields\"",
        display_column(column)
    ))
}

/// Refuses a sparse tensor with a key that is not below its size.
#[cold]
pub(crate) fn key_outside(column: &Column, key: u64, size: u64) -> Refused {
    Refused::Mismatch(format!(
        "{}: expected keys below {size}, the size of the tensor, found {key}; the record is damaged, \
         or its shape is wrong",
        display_column(column)
    ))
}

/// Refuses a text whose byte at `at` is not UTF-8.
#[cold]
pub(crate) fn not_utf8(name: &str, byte: u8, at: usize) -> Refused {
    Refused::Mismatch(format!(
        "`{name}`: expected UTF-8, found byte {byte:02x} at its +{at}; leave out {name} = true if it \
         is no text"
    ))
}
