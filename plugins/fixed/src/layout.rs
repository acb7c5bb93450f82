//! What a record is made of, from the options: the fields, one behind the other, and their sizes.

use std::ops::Range;

use pipemill_parsing::field_spec::{self as field_list, Entry, Kind, List};
use pipemill_plugin::{Field, Options, Records, Scalar};

/// How the option `fields` is written. Any bytes are a value of these types, so that none has to be
/// looked at.
const LIST: List = List {
    option: "fields",
    example: "label:int32,x:float32[28,28],image:bytes[784]",
    types: &[Scalar::Bytes, Scalar::Int32, Scalar::Int64, Scalar::Float32, Scalar::Float64],
    long_bytes: true,
};

/// The fields of a record.
#[derive(Debug)]
pub(crate) struct Layout {
    fields: Vec<Field>,
    /// Where in a record each field lies.
    places: Vec<Range<usize>>,
    /// Bytes of a record, at least 1.
    pub(crate) size: usize,
}

impl Layout {
    pub(crate) fn new(options: &Options) -> Result<Self, String> {
        let fields = match options.get("fields") {
            Some(text) => several(options, text)?,
            None => vec![one(options)?],
        };
        let sizes = fields.iter().map(|(_, size)| *size);
        let told = sizes.clone().try_fold(0u64, u64::checked_add).unwrap_or(u64::MAX);
        let size = options.int("size").unwrap_or(told);
        if size != told {
            return Err(format!(
                "option `size` is {size}, but the fields have {told} bytes together; leave it out, or \
                 make them agree"
            ));
        }
        let size = u32::try_from(size).ok().filter(|size| *size > 0).ok_or_else(|| {
            format!("records of {size} bytes can't be read; a record has 1 to {} bytes", u32::MAX)
        })? as usize;
        let mut end = 0;
        let places = sizes.map(|size| {
            let start = end;
            // Together they fit, as was just checked.
            end += size as usize;
            start..end
        });
        let places = places.collect();
        Ok(Self { fields: fields.into_iter().map(|(field, _)| field).collect(), places, size })
    }

    pub(crate) fn schema(&self) -> Vec<Field> {
        self.fields.clone()
    }

    /// Emits the records that lie in these bytes of the chunk, one behind the other.
    pub(crate) fn emit(&self, bytes: Range<usize>, out: &mut Records) {
        let starts = bytes.step_by(self.size);
        if self.fields.len() == 1 {
            return starts.for_each(|at| out.span(at, at..at + self.size));
        }
        for at in starts {
            for place in &self.places {
                out.field(at + place.start..at + place.end);
            }
            out.end_record(at);
        }
    }
}

/// The field `data`, and its bytes.
fn one(options: &Options) -> Result<(Field, u64), String> {
    let word = options.get("type").unwrap_or("bytes");
    let known = field_list::scalar(word).filter(|scalar| LIST.types.contains(scalar));
    let scalar = known.ok_or_else(|| {
        let types = field_list::some_of(LIST.types, "and");
        format!("option `type` knows {types}, not {word:?}")
    })?;
    let shape = options.get("shape").map(|text| field_list::dims("shape", text)).transpose()?;
    let width = field_list::width(scalar).unwrap_or(1) as u64;
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
            // More than fits is refused when the sizes are added up.
            vec![u32::try_from(size / width).unwrap_or(u32::MAX)]
        }
        (None, _) => Vec::new(),
    };
    Ok(sized("data".to_owned(), scalar, dims))
}

/// The fields of a list, each with its bytes.
fn several(options: &Options, text: &str) -> Result<Vec<(Field, u64)>, String> {
    for other in ["type", "shape"] {
        if options.get(other).is_some() {
            return Err(format!(
                "option `{other}` is for the field `data` and has no meaning with `fields`, where each \
                 field has its own, as in \"x:float32[28,28]\""
            ));
        }
    }
    LIST.parse(text)?.into_iter().map(field).collect()
}

fn field(entry: Entry) -> Result<(Field, u64), String> {
    let Kind { scalar, shape } = LIST.kind_of(&entry)?;
    let Entry { name, what, optional, .. } = entry;
    let open = shape.contains(&0) || scalar == Scalar::Bytes && shape.is_empty();
    if name.is_some() || optional || open {
        return Err(format!(
            "option `fields` takes names with types of a fixed size, as in {:?}; `{what}` is not so",
            LIST.example
        ));
    }
    Ok(sized(what, scalar, shape))
}

/// The field and its bytes. A shape is for numbers; bytes are one string that long.
fn sized(name: String, scalar: Scalar, dims: Vec<u32>) -> (Field, u64) {
    let width = field_list::width(scalar).unwrap_or(1) as u64;
    let product = |size: u64, dim: &u32| size.checked_mul(u64::from(*dim));
    let size = dims.iter().try_fold(width, product).unwrap_or(u64::MAX);
    let shape = if scalar == Scalar::Bytes { Vec::new() } else { dims };
    (Field::new(name, scalar).shaped(shape), size)
}
