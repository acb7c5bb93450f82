//! Why a record is refused: what was expected, what it is instead, and what to write.

use pipemill_parsing::field_spec::{self as field_list, shown};
use pipemill_parsing::protobuf::{Fault, Reader, map_entry};
use pipemill_plugin::Scalar;

use crate::emit::Source;
use crate::layout::Form;
use crate::record::Record;
use crate::settings::Column;
use crate::tensor::Tensor;

/// Why a record is refused.
#[derive(Debug)]
pub(crate) enum Refused {
    /// It can't be read: where, and why.
    Fault { at: usize, joined: bool, fault: Fault },
    /// It is not as the options or the first record tell, in which way.
    Told(String),
}

/// Keys of a record that a message names.
const NAMED: usize = 20;

impl Refused {
    #[cold]
    pub(crate) fn fault(fault: Fault, source: &Source) -> Self {
        Self::Fault { at: fault.at - source.base, joined: !source.in_chunk, fault }
    }

    pub(crate) fn message(self) -> String {
        match self {
            Self::Told(message) => message,
            Self::Fault { at, joined, fault } => {
                let of = if joined { " of its joined parts" } else { "" };
                format!(
                    "expected an aialgs.data.Record, found at +{at}{of} {fault}; the record is \
                     damaged, or of another type"
                )
            }
        }
    }
}

/// "feature `values`", "label `values`".
fn named(column: &Column) -> String {
    let map = if column.option == "features" { "feature" } else { "label" };
    format!("{map} `{}`", column.key)
}

/// What a tensor is, as an operator would write it, or in words.
fn found(column: &Column, tensor: &Tensor) -> String {
    let Some(scalar) = tensor.scalar else { return "nothing".to_owned() };
    let (count, said) = (tensor.count, &tensor.shape);
    let size = u32::try_from(count).unwrap_or(u32::MAX);
    match scalar {
        Scalar::Bytes if count == 1 => "bytes".to_owned(),
        Scalar::Bytes => format!("{count} values of bytes"),
        scalar if tensor.is_sparse() => {
            let name = field_list::name(scalar);
            format!("a sparse tensor of {name}, {count} values in the shape {said:?}")
        }
        scalar if tensor.size().is_some_and(|size| size != count as u64) => {
            let name = field_list::name(scalar);
            format!("{count} values of {name} with the shape {said:?}")
        }
        scalar if said.len() > 1 => {
            let said: Vec<_> = said.iter().map(|size| *size as u32).collect();
            shown(scalar, &said)
        }
        scalar if count == 1 && column.option == "label" => shown(scalar, &[]),
        scalar => shown(scalar, &[size]),
    }
}

/// What a column must be.
fn expected(column: &Column, form: &Form) -> String {
    let told = match form {
        Form::Nothing => "no value".to_owned(),
        Form::Bytes => "bytes".to_owned(),
        Form::Dense(scalar, shape) => shown(*scalar, shape),
        Form::Sparse(scalar) => format!("a sparse tensor of {}", field_list::name(*scalar)),
    };
    let learned = if column.kind.is_none() { ", as in the first record" } else { "" };
    format!("{told}{learned}")
}

/// A record whose column is not what it must be.
pub(crate) fn unlike(
    column: &Column,
    form: &Form,
    tensor: &Tensor,
    record: &Record,
    bytes: &[u8],
) -> Refused {
    let Some(scalar) = tensor.scalar else { return missing(column, record, bytes) };
    let (expected, found) = (expected(column, form), found(column, tensor));
    let remedy = remedy(column, form, tensor, scalar);
    Refused::Told(format!("{}: expected {expected}, found {found}; {remedy}", named(column)))
}

/// What to write so that the column is taken.
fn remedy(column: &Column, form: &Form, tensor: &Tensor, scalar: Scalar) -> String {
    let (key, option) = (&column.key, column.option);
    let any = shown(scalar, &[0]);
    let same_type = match form {
        Form::Nothing => {
            return format!(
                "write {option} = \"{key}:{any}?\", or {option} = \"\" to leave it out"
            );
        }
        Form::Bytes => scalar == Scalar::Bytes,
        Form::Dense(one, _) | Form::Sparse(one) => *one == scalar,
    };
    let kind_told = column.kind.is_some();
    match (form, tensor.is_sparse()) {
        _ if !same_type && !kind_told => "the records of an object must be of one type".to_owned(),
        _ if !same_type => {
            let form = if scalar == Scalar::Bytes { "bytes".to_owned() } else { any };
            format!("write `{key}:{form}` in the option `{option}` if that is right")
        }
        (Form::Sparse(_), _) => {
            "sparse = \"dense\" takes both, and writes out the zeros".to_owned()
        }
        (_, true) if kind_told => format!(
            "sparse = \"dense\" writes out the zeros of such a shape, `{key}` without a type gives \
             keys and values"
        ),
        (_, true) => "sparse = \"dense\" writes out the zeros of such a shape".to_owned(),
        _ if tensor.size().is_some_and(|size| size != tensor.count as u64) => {
            "the record contradicts itself".to_owned()
        }
        _ => format!(
            "write `{key}:{}`, or `{key}:{any}` for any number, in the option `{option}`",
            found(column, tensor)
        ),
    }
}

/// A record that lacks a feature or a label.
fn missing(column: &Column, record: &Record, bytes: &[u8]) -> Refused {
    let (option, key, named) = (column.option, &column.key, named(column));
    let keys = match keys(record, bytes) {
        Ok(keys) if keys.is_empty() => "no features and no labels".to_owned(),
        Ok(keys) => keys,
        // What was read once can be read again.
        Err(fault) => fault.to_string(),
    };
    Refused::Told(format!(
        "{named} is missing; the record has {keys}; put a ? behind `{key}` in the option `{option}` \
         if records may be without it"
    ))
}

/// The features and labels that a record has.
fn keys(record: &Record, bytes: &[u8]) -> Result<String, Fault> {
    let mut all = Vec::new();
    let mut reader = Reader::new(bytes, record.payload.clone());
    while let Some(entry) = reader.next()? {
        let map = match entry.number {
            1 => "feature",
            2 => "label",
            _ => continue,
        };
        let (key, _) = map_entry(bytes, entry.bytes()?)?;
        all.push(format!("{map} `{}`", bytes[key].escape_ascii()));
    }
    let more = if all.len() > NAMED { ", …" } else { "" };
    all.truncate(NAMED);
    Ok(format!("{}{more}", all.join(", ")))
}

/// The first record does not tell what a column is.
#[cold]
pub(crate) fn not_told(column: &Column, tensor: &Tensor, record: &Record, bytes: &[u8]) -> Refused {
    if tensor.scalar.is_none() && !column.optional {
        return missing(column, record, bytes);
    }
    let (key, option) = (&column.key, column.option);
    Refused::Told(format!(
        "{}: expected a tensor that tells type and shape, as this is the first record, found {}; \
         write them, as in {option} = \"{key}:float32[10]\"",
        named(column),
        found(column, tensor)
    ))
}

/// More values of bytes than one, or none.
#[cold]
pub(crate) fn several_bytes(column: &Column, count: usize) -> Refused {
    Refused::Told(format!(
        "{}: expected one value of bytes, found {count}; a list of such values is no field: take \
         whole records with the decoder `recordio`",
        named(column)
    ))
}

/// A sparse tensor whose keys and values do not pair.
#[cold]
pub(crate) fn other_keys(column: &Column, keys: usize, values: usize) -> Refused {
    Refused::Told(format!(
        "{}: expected as many keys as values, found {keys} keys and {values} values; the record is \
         damaged",
        named(column)
    ))
}

/// A sparse tensor without a shape, where that is needed.
#[cold]
pub(crate) fn no_shape(column: &Column) -> Refused {
    let (key, option) = (&column.key, column.option);
    Refused::Told(format!(
        "{}: expected a sparse tensor with a shape, found none; write it, as in {option} = \
         \"{key}:float32[1000]\"",
        named(column)
    ))
}

/// A sparse tensor whose zeros take too much room.
#[cold]
pub(crate) fn too_large(column: &Column, bytes: u64, max: u64) -> Refused {
    Refused::Told(format!(
        "{}: with its zeros, the tensor of {bytes} bytes is larger than max_record ({max} bytes); \
         raise max_record, or take keys and values: sparse = \"fields\"",
        named(column)
    ))
}

/// A key that its tensor has no place for.
#[cold]
pub(crate) fn key_outside(column: &Column, key: u64, size: u64) -> Refused {
    Refused::Told(format!(
        "{}: expected keys below {size}, the size of the tensor, found {key}; the record is damaged, \
         or its shape is wrong",
        named(column)
    ))
}

/// A text that is none.
#[cold]
pub(crate) fn no_text(name: &str, byte: u8, at: usize) -> Refused {
    Refused::Told(format!(
        "`{name}`: expected UTF-8, found byte {byte:02x} at its +{at}; leave out {name} = true if it \
         is no text"
    ))
}
