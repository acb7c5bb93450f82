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

    /// The layout that was learned before, from the fields of the stream that is continued. `None`
    /// if the fields don't belong to a layout with these options.
    pub(crate) fn learned_before(settings: &Settings, before: &[Field]) -> Option<Self> {
        let mut rest = before;
        let form = |column: &Column| {
            let form = match known_form(column) {
                Some(form) => form,
                None => form_before(column, rest)?,
            };
            rest = rest.get(form.fields()..)?;
            Some(form)
        };
        let layout = Self { forms: settings.columns.iter().map(form).collect::<Option<_>>()? };
        let what = |field: &Field| (field.name.clone(), field.scalar, field.shape.clone());
        let fields = layout.fields(settings);
        fields.iter().map(what).eq(before.iter().map(what)).then_some(layout)
    }

    /// Whether a stream that begins again can learn the layout from its fields. The host passes
    /// each in one line.
    pub(crate) fn can_be_told(&self, settings: &Settings) -> bool {
        let fields = self.fields(settings);
        let told = Self::learned_before(settings, &fields);
        fields.iter().all(|field| !field.name.contains('\n'))
            && told.is_some_and(|told| told.forms == self.forms)
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

/// The form of a column whose fields are the first of these, or that has none.
fn form_before(column: &Column, fields: &[Field]) -> Option<ColumnForm> {
    let name = &column.name;
    match fields {
        [one, ..] if one.name == *name && one.scalar == Scalar::Bytes => Some(ColumnForm::Bytes),
        [one, ..] if one.name == *name => Some(ColumnForm::Dense(one.scalar, one.shape.clone())),
        [keys, values, ..] if keys.name == format!("{name}.keys") => {
            Some(ColumnForm::Sparse(values.scalar))
        }
        _ => column.guessed.then_some(ColumnForm::Nothing),
    }
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
