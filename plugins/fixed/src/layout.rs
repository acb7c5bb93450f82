//! The layout of a record, from the options: its fields in order, and their sizes.

use std::ops::Range;

use pipemill_parsing::field_spec::{
    FieldSpec, FieldType, SpecOption, element_size, join_type_names, parse_sizes, scalar_from_name,
};
use pipemill_plugin::{Field, Options, Records, Scalar};

/// The option `fields`. It allows only types for which any bytes are valid, so that no byte must be
/// checked.
const FIELDS: SpecOption = SpecOption {
    name: "fields",
    example: "label:int32,x:float32[28,28],image:bytes[784]",
    types: &[
        Scalar::Bytes,
        Scalar::Int8,
        Scalar::Int16,
        Scalar::Int32,
        Scalar::Int64,
        Scalar::Uint8,
        Scalar::Uint16,
        Scalar::Uint32,
        Scalar::Uint64,
        Scalar::Float16,
        Scalar::Bfloat16,
        Scalar::Float32,
        Scalar::Float64,
    ],
    logical_types: &[],
    sized_bytes: true,
    lists: false,
};

/// The fields of a record.
#[derive(Debug)]
pub(crate) struct Layout {
    fields: Vec<Field>,
    /// The bytes of each field, counted from the start of the record.
    ranges: Vec<Range<usize>>,
    /// Bytes of a record, at least 1.
    pub(crate) size: usize,
}

impl Layout {
    /// The layout that the options describe. An error is a message for the operator.
    pub(crate) fn new(options: &Options) -> Result<Self, String> {
        let fields = match options.get("fields") {
            Some(text) => fields_of(options, text)?,
            None => vec![data_field(options)?],
        };
        Self::of_fields(fields, options.int("size"))
    }

    /// The layout of records of one number, or of one array of numbers. Its shape has no size of 0.
    pub(crate) fn of_numbers(field: Field) -> Result<Self, String> {
        Self::of_fields(vec![sized(field)], None)
    }

    /// The layout of these fields, each with its size in bytes. `size` is the total size that the
    /// operator gives.
    fn of_fields(fields: Vec<(Field, u64)>, size: Option<u64>) -> Result<Self, String> {
        let sizes = fields.iter().map(|(_, size)| *size);
        let sum = sizes.clone().try_fold(0u64, u64::checked_add).unwrap_or(u64::MAX);
        let size = size.unwrap_or(sum);
        if size != sum {
            return Err(format!(
                "option `size` is {size}, but the fields have {sum} bytes together; leave it out, or \
                 make them agree"
            ));
        }
        let size = u32::try_from(size).ok().filter(|size| *size > 0).ok_or_else(|| {
            format!("records of {size} bytes can't be read; a record has 1 to {} bytes", u32::MAX)
        })? as usize;
        let mut end = 0;
        let ranges = sizes.map(|size| {
            let start = end;
            // Their sum fits into a u32: checked above.
            end += size as usize;
            start..end
        });
        let ranges = ranges.collect();
        Ok(Self { fields: fields.into_iter().map(|(field, _)| field).collect(), ranges, size })
    }

    pub(crate) fn schema(&self) -> Vec<Field> {
        self.fields.clone()
    }

    /// Emits the records in these bytes of the chunk. The bytes are complete records.
    pub(crate) fn emit(&self, bytes: Range<usize>, out: &mut Records) {
        let starts = bytes.step_by(self.size);
        if self.fields.len() == 1 {
            return starts.for_each(|at| out.span(at, at..at + self.size));
        }
        for at in starts {
            for range in &self.ranges {
                out.field(at + range.start..at + range.end);
            }
            out.end_record(at);
        }
    }
}

/// The field `data`, from the options `type`, `shape` and `size`, and its size in bytes.
fn data_field(options: &Options) -> Result<(Field, u64), String> {
    let word = options.get("type").unwrap_or("bytes");
    let known = scalar_from_name(word).filter(|scalar| FIELDS.types.contains(scalar));
    let scalar = known.ok_or_else(|| {
        let types = join_type_names(FIELDS.types, "and");
        format!("option `type` knows {types}, not {word:?}")
    })?;
    let shape = options.get("shape").map(|text| parse_sizes("shape", text)).transpose()?;
    let width = element_size(scalar).unwrap_or(1) as u64;
    let dims = match (shape, options.int("size")) {
        (Some(shape), _) => shape,
        (None, Some(size)) if scalar == Scalar::Bytes => {
            return Ok((Field::bytes("data"), size));
        }
        (None, None) if scalar == Scalar::Bytes => {
            return Err("how long a record is must be said: set the option `size`, `shape` with \
                        `type`, or `fields`"
                .to_owned());
        }
        (None, Some(size)) if size % width != 0 => {
            return Err(format!(
                "option `size` is {size}, which is no number of {word} ({width} bytes each)"
            ));
        }
        (None, Some(size)) if size != width => {
            // A record that is too large is refused when the sizes are added up.
            vec![u32::try_from(size / width).unwrap_or(u32::MAX)]
        }
        (None, _) => Vec::new(),
    };
    Ok(sized(Field::new("data", scalar).shaped(dims)))
}

/// The fields of the option `fields`, each with its size in bytes.
fn fields_of(options: &Options, text: &str) -> Result<Vec<(Field, u64)>, String> {
    for other in ["type", "shape"] {
        if options.get(other).is_some() {
            return Err(format!(
                "option `{other}` is for the field `data` and has no meaning with `fields`, where each \
                 field has its own, as in \"x:float32[28,28]\""
            ));
        }
    }
    FIELDS.parse(text)?.into_iter().map(field_of).collect()
}

/// The field of a spec, and its size in bytes. The selector is the name of the field.
fn field_of(spec: FieldSpec) -> Result<(Field, u64), String> {
    let FieldType { scalar, shape, .. } = FIELDS.required_type(&spec)?;
    let FieldSpec { name, selector, optional, .. } = spec;
    let any_size = shape.contains(&0) || scalar == Scalar::Bytes && shape.is_empty();
    if name.is_some() || optional || any_size {
        return Err(format!(
            "option `fields` takes names with types of a fixed size, as in {:?}; `{selector}` is not so",
            FIELDS.example
        ));
    }
    Ok(sized(Field::new(selector, scalar).shaped(shape)))
}

/// A field and its size in bytes. For bytes, the product of the shape is the length of the one value.
fn sized(field: Field) -> (Field, u64) {
    let width = element_size(field.scalar).unwrap_or(1) as u64;
    let product = |size: u64, dim: &u32| size.checked_mul(u64::from(*dim));
    let size = field.shape.iter().try_fold(width, product).unwrap_or(u64::MAX);
    let one_value = field.scalar == Scalar::Bytes;
    (if one_value { field.shaped([]) } else { field }, size)
}
