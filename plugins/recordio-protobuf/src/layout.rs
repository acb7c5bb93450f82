//! The fields of the records: known from the options, or learned from the first record.

use pipemill_parsing::field_spec::FieldType;
use pipemill_plugin::{Field, Scalar};

use crate::column_form::ColumnForm;
use crate::describe::{self, Refused};
use crate::record::Record;
use crate::settings::{Column, Settings};
use crate::tensor::Tensor;

/// The form of each column.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) forms: Vec<ColumnForm>,
}

impl Layout {
    /// The layout, if the options give the type of every column.
    pub(crate) fn from_settings(settings: &Settings) -> Option<Self> {
        let forms = settings.columns.iter().map(known_form).collect::<Option<_>>();
        forms.map(|forms| Self { forms })
    }

    /// The layout from the options and, for columns without a type, from this record.
    pub(crate) fn learn(
        settings: &Settings,
        record: &Record,
        bytes: &[u8],
    ) -> Result<Self, Refused> {
        let columns = settings.columns.iter().zip(&record.tensors);
        let learn = |(column, tensor): (&Column, &Tensor)| match known_form(column) {
            Some(form) => Ok(form),
            None => learned_form(column, tensor, settings.dense)
                .ok_or_else(|| describe::not_learned(column, tensor, record, bytes)),
        };
        Ok(Self { forms: columns.map(learn).collect::<Result<_, _>>()? })
    }

    /// The fields of a record.
    pub(crate) fn fields(&self, settings: &Settings) -> Vec<Field> {
        let mut fields = Vec::new();
        for (Column { name, optional, .. }, form) in settings.columns.iter().zip(&self.forms) {
            let nullable = |field| Field { nullable: *optional, ..field };
            match form {
                ColumnForm::Nothing => {}
                ColumnForm::Bytes => fields.push(nullable(Field::bytes(name))),
                ColumnForm::Dense(scalar, shape) => {
                    fields.push(nullable(Field::new(name, *scalar).shaped(shape.clone())));
                }
                ColumnForm::Sparse(scalar) => {
                    let parts =
                        [("keys", Scalar::Int64), ("values", *scalar), ("shape", Scalar::Int64)];
                    fields.extend(parts.map(|(part, scalar)| {
                        nullable(Field::new(format!("{name}.{part}"), scalar).shaped([0]))
                    }));
                }
            }
        }
        let texts = [("uid", settings.uid), ("metadata", settings.metadata)];
        let texts = texts.into_iter().filter(|(_, wanted)| *wanted);
        fields.extend(texts.map(|(name, _)| Field::utf8(name).nullable()));
        fields
    }
}

/// The form of a column whose type the options give.
fn known_form(column: &Column) -> Option<ColumnForm> {
    let FieldType { scalar, shape, .. } = column.field_type.clone()?;
    Some(if scalar == Scalar::Bytes { ColumnForm::Bytes } else { ColumnForm::Dense(scalar, shape) })
}

/// The form of a column that has this tensor in the first record; `None` if the tensor does not
/// give it.
fn learned_form(column: &Column, tensor: &Tensor, dense: bool) -> Option<ColumnForm> {
    let scalar = match tensor.scalar {
        Some(Scalar::Bytes) => return Some(ColumnForm::Bytes),
        Some(scalar) => scalar,
        None => return column.guessed.then_some(ColumnForm::Nothing),
    };
    if tensor.is_sparse() && !dense {
        return Some(ColumnForm::Sparse(scalar));
    }
    let named = tensor.shape.iter().map(|size| u32::try_from(*size).ok());
    let named: Vec<u32> = named.collect::<Option<_>>()?;
    let shape = match named.len() {
        0 if tensor.is_sparse() => return None,
        // A label of one number becomes a number, not an array of one.
        0 | 1 if tensor.count == 1 && !tensor.is_sparse() && column.option == "label" => vec![],
        0 => vec![u32::try_from(tensor.count).ok()?],
        _ => named,
    };
    (!shape.contains(&0)).then_some(ColumnForm::Dense(scalar, shape))
}
