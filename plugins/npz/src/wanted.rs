//! The option `fields`: the arrays of an archive that become fields of one record.

use pipemill_parsing::field_spec::{FieldSpec, FieldType, SpecOption};
use pipemill_parsing::npy::{ArrayLayout, NpyHeader, display_fields};
use pipemill_plugin::{Field, Records, Scalar};

const FIELDS: SpecOption = SpecOption {
    name: "fields",
    example: "x:float32[0,3],label=y:int64,name?",
    types: &[
        Scalar::Bytes,
        Scalar::Boolean,
        Scalar::Int8,
        Scalar::Int16,
        Scalar::Int32,
        Scalar::Int64,
        Scalar::Uint8,
        Scalar::Uint16,
        Scalar::Uint32,
        Scalar::Uint64,
        Scalar::Float16,
        Scalar::Float32,
        Scalar::Float64,
    ],
    sized_bytes: false,
    logical_types: &[],
    lists: true,
};

/// The wanted arrays, in the order of the fields.
#[derive(Debug)]
pub(crate) struct WantedArrays {
    arrays: Vec<WantedArray>,
}

/// An array that becomes a field.
#[derive(Debug)]
struct WantedArray {
    /// Name of the field.
    name: String,
    /// Name of the array.
    array: String,
    /// The type that the operator gave.
    field_type: Option<FieldType>,
    /// Whether an archive may lack it.
    optional: bool,
    /// The field, once it is known: from the operator's type or from the first archive.
    field: Option<Field>,
}

impl WantedArrays {
    /// The arrays that the option names. An error is a message for the operator.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        let specs = FIELDS.parse_with_bool_arrays(text)?;
        let arrays: Vec<_> = specs.into_iter().map(WantedArray::new).collect();
        for (index, one) in arrays.iter().enumerate() {
            if arrays[..index].iter().any(|other| other.array == one.array) {
                return Err(FIELDS.duplicate_selector(&one.array));
            }
        }
        FIELDS.check_names(&[], arrays.iter().map(|one| (&*one.name, &*one.array)))?;
        Ok(Self { arrays })
    }

    /// The fields, if the types of all are known.
    pub(crate) fn schema(&self) -> Option<Vec<Field>> {
        self.arrays.iter().map(|one| one.field.clone()).collect()
    }

    /// Number of fields.
    pub(crate) fn len(&self) -> usize {
        self.arrays.len()
    }

    /// The index of the field for the array of this name.
    pub(crate) fn find(&self, array: &str) -> Option<usize> {
        self.arrays.iter().position(|one| one.array == array)
    }

    /// The name of an array that is missing, but required.
    pub(crate) fn missing<T>(&self, found: &[Option<T>]) -> Option<&str> {
        let mut arrays = self.arrays.iter().zip(found);
        let missing = arrays.find(|(one, found)| !one.optional && found.is_none());
        missing.map(|(one, _)| &*one.array)
    }

    /// Compares an array with the known facts of its field. The error says what was expected and
    /// what was found.
    pub(crate) fn check(
        &self,
        index: usize,
        header: &NpyHeader,
        layout: &ArrayLayout,
    ) -> Result<(), String> {
        let (one, found) = (&self.arrays[index], &layout.fields()[0]);
        if let Some(field_type) = &one.field_type {
            return header.check_type(layout, field_type);
        }
        match &one.field {
            Some(field)
                if field.shape == found.shape
                    && field.scalar == found.scalar
                    && field.logical == found.logical =>
            {
                Ok(())
            }
            Some(field) => Err(format!(
                "expected {}, as in the first archive, found {}; if it may have any size, give its type in \
                 the option `fields`, as in \"x:float32[0,3]\"",
                display_fields(std::slice::from_ref(field)),
                display_fields(layout.fields())
            )),
            None => Ok(()),
        }
    }

    /// Learns the types that the operator did not give from the first archive, and sets the schema.
    /// `found` has a layout for each present array. The error says why it refuses the archive.
    pub(crate) fn learn(
        &mut self,
        found: &[Option<&ArrayLayout>],
        out: &mut Records,
    ) -> Result<(), String> {
        if self.schema().is_some() {
            return Ok(());
        }
        for (one, found) in self.arrays.iter_mut().zip(found) {
            if one.field.is_some() {
                continue;
            }
            let array = &one.array;
            let Some(layout) = found else {
                return Err(format!(
                    "expected the array `{array}` in the first archive, to learn its type; give it in the \
                     option `fields`, as in \"{array}:float32[3]?\""
                ));
            };
            let field = &layout.fields()[0];
            if field.scalar != Scalar::Bytes && field.shape.contains(&0) {
                return Err(format!(
                    "expected an array `{array}` with elements in the first archive, to learn its shape, \
                     found {}; give it in the option `fields`, as in \"{array}:float32[0,4]\"",
                    display_fields(layout.fields())
                ));
            }
            let field = Field { name: one.name.clone(), nullable: one.optional, ..field.clone() };
            one.field = Some(field);
        }
        if let Some(fields) = self.schema() {
            out.set_schema(&fields);
        }
        Ok(())
    }
}

impl WantedArray {
    fn new(spec: FieldSpec) -> Self {
        let FieldSpec { name, selector, field_type, optional } = spec;
        let array = selector.strip_suffix(".npy").unwrap_or(&selector).to_owned();
        let name = name.unwrap_or_else(|| array.clone());
        let field = field_type.as_ref().map(|FieldType { scalar, shape, .. }| Field {
            nullable: optional,
            ..Field::new(&*name, *scalar).shaped(&**shape)
        });
        Self { name, array, field_type, optional, field }
    }
}

/// The text for a missing array.
pub(crate) fn missing_message(name: &str, found: &str) -> String {
    format!(
        "expected an array `{name}`, found only: {found}; mark it with `?` if archives may lack it"
    )
}
