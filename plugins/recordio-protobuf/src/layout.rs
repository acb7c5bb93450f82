//! What the fields of the records are: told by the options, or learned from the first record.

use pipemill_parsing::field_spec::Kind;
use pipemill_plugin::{Field, Scalar};

use crate::describe::{self, Refused};
use crate::record::Record;
use crate::settings::{Column, Settings};
use crate::tensor::Tensor;

/// What each column becomes.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) forms: Vec<Form>,
}

/// What a column becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Form {
    /// No field: nobody asked for it, and the first record doesn't have it.
    Nothing,
    /// One value of bytes.
    Bytes,
    /// All elements of a tensor.
    Dense(Scalar, Vec<u32>),
    /// Keys, values and shape of a sparse tensor.
    Sparse(Scalar),
}

impl Layout {
    /// The layout, if the options tell all of it.
    pub(crate) fn told(settings: &Settings) -> Option<Self> {
        let forms = settings.columns.iter().map(told).collect::<Option<_>>();
        forms.map(|forms| Self { forms })
    }

    /// The layout that the options tell and, for the rest, this record.
    pub(crate) fn learn(
        settings: &Settings,
        record: &Record,
        bytes: &[u8],
    ) -> Result<Self, Refused> {
        let columns = settings.columns.iter().zip(&record.tensors);
        let learn = |(column, tensor): (&Column, &Tensor)| match told(column) {
            Some(form) => Ok(form),
            None => learned(column, tensor, settings.dense)
                .ok_or_else(|| describe::not_told(column, tensor, record, bytes)),
        };
        Ok(Self { forms: columns.map(learn).collect::<Result<_, _>>()? })
    }

    /// The fields of a record.
    pub(crate) fn fields(&self, settings: &Settings) -> Vec<Field> {
        let mut fields = Vec::new();
        for (Column { name, .. }, form) in settings.columns.iter().zip(&self.forms) {
            match form {
                Form::Nothing => {}
                Form::Bytes => fields.push(Field::bytes(name)),
                Form::Dense(scalar, shape) => {
                    fields.push(Field::new(name, *scalar).shaped(shape.clone()));
                }
                Form::Sparse(scalar) => {
                    let parts =
                        [("keys", Scalar::Int64), ("values", *scalar), ("shape", Scalar::Int64)];
                    fields.extend(parts.map(|(part, scalar)| {
                        Field::new(format!("{name}.{part}"), scalar).shaped([0])
                    }));
                }
            }
        }
        let texts = [("uid", settings.uid), ("metadata", settings.metadata)];
        let texts = texts.into_iter().filter(|(_, wanted)| *wanted);
        fields.extend(texts.map(|(name, _)| Field::new(name, Scalar::Utf8)));
        fields
    }
}

fn told(column: &Column) -> Option<Form> {
    let Kind { scalar, shape } = column.kind.clone()?;
    Some(if scalar == Scalar::Bytes { Form::Bytes } else { Form::Dense(scalar, shape) })
}

/// What a column becomes that is this in the first record, if that tells.
fn learned(column: &Column, tensor: &Tensor, dense: bool) -> Option<Form> {
    let scalar = match tensor.scalar {
        Some(Scalar::Bytes) => return Some(Form::Bytes),
        Some(scalar) => scalar,
        None => return column.guessed.then_some(Form::Nothing),
    };
    if tensor.is_sparse() && !dense {
        return Some(Form::Sparse(scalar));
    }
    let said = tensor.shape.iter().map(|size| u32::try_from(*size).ok());
    let said: Vec<u32> = said.collect::<Option<_>>()?;
    let shape = match said.len() {
        0 if tensor.is_sparse() => return None,
        // A label of one number is that number.
        0 | 1 if tensor.count == 1 && !tensor.is_sparse() && column.option == "label" => vec![],
        0 => vec![u32::try_from(tensor.count).ok()?],
        _ => said,
    };
    (!shape.contains(&0)).then_some(Form::Dense(scalar, shape))
}
