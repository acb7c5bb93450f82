//! The Arrow type of a field, and how its values are laid out.

use pipemill_types::{Field, Scalar};
use polars_arrow_format::ipc;

/// How the values of a field are stored in Arrow's buffers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layout {
    /// Bytes or text of any length: offsets and bytes.
    Strings(Scalar),
    /// Lists of these.
    StringLists(Scalar),
    /// Indices into a dictionary of this id.
    Categories(i64),
    /// Numbers, one or an array of them for each record.
    Numbers(Element, Vec<u32>),
}

/// How one number is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    /// The bytes unchanged; this is their number.
    Plain(usize),
    /// One bit for each boolean, which the decoder gives as one byte.
    Bit,
    /// As float32 of the same value: for bfloat16, which Arrow does not have.
    Bfloat16,
    /// An integer of 8 bytes, written with 4.
    Int64As32,
}

impl Element {
    /// Bytes of one element in the decoder's value.
    pub fn source_bytes(self) -> usize {
        match self {
            Self::Plain(size) => size,
            Self::Bit => 1,
            Self::Bfloat16 => 2,
            Self::Int64As32 => 8,
        }
    }
}

/// The layout of a field's values. `dictionary` is the id of its dictionary, if it has categories.
pub fn layout(field: &Field, dictionary: i64) -> Layout {
    if field.scalar.is_string() {
        return match field.is_list() {
            true => Layout::StringLists(field.scalar),
            false => Layout::Strings(field.scalar),
        };
    }
    if !field.categories.is_empty() {
        return Layout::Categories(dictionary);
    }
    if field.logical == "uuid" {
        return Layout::Numbers(Element::Plain(16), Vec::new());
    }
    let element = match (field.scalar, field.logical.as_str()) {
        (Scalar::Boolean, _) => Element::Bit,
        (Scalar::Bfloat16, _) => Element::Bfloat16,
        (Scalar::Int64, "time[s]" | "time[ms]") => Element::Int64As32,
        (scalar, _) => Element::Plain(scalar.size()),
    };
    // The length of a value determines one dimension, but not two.
    let unknown = field.shape.iter().filter(|size| **size == 0).count();
    let shape = if unknown > 1 { vec![0] } else { field.shape.clone() };
    Layout::Numbers(element, shape)
}

/// The field in Arrow's schema.
pub fn arrow_field(field: &Field, layout: &Layout) -> ipc::Field {
    let mut arrow = ipc::Field {
        name: Some(field.name.clone()),
        nullable: field.nullable,
        type_: None,
        dictionary: None,
        // Readers want the list of children even if there are none.
        children: Some(Vec::new()),
        custom_metadata: metadata(field),
    };
    match layout {
        Layout::Strings(scalar) => arrow.type_ = Some(string_type(*scalar)),
        Layout::StringLists(scalar) => {
            arrow.type_ = Some(ipc::Type::List(Box::default()));
            arrow.children = Some(vec![item(string_type(*scalar))]);
        }
        Layout::Categories(id) => {
            arrow.type_ = Some(string_type(Scalar::Utf8));
            arrow.dictionary = Some(Box::new(ipc::DictionaryEncoding {
                id: *id,
                index_type: Some(Box::new(integer(field.scalar))),
                is_ordered: false,
                dictionary_kind: ipc::DictionaryKind::DenseArray,
            }));
        }
        Layout::Numbers(_, shape) => {
            let mut inner = number_type(field);
            let mut children = Vec::new();
            for size in shape.iter().rev() {
                children = vec![ipc::Field { children: Some(children), ..item(inner) }];
                inner = match size {
                    0 => ipc::Type::List(Box::default()),
                    size => fixed_size_list(*size),
                };
            }
            (arrow.type_, arrow.children) = (Some(inner), Some(children));
        }
    }
    arrow
}

/// The child of a list.
fn item(type_: ipc::Type) -> ipc::Field {
    ipc::Field {
        name: Some("item".to_owned()),
        nullable: false,
        type_: Some(type_),
        dictionary: None,
        children: Some(Vec::new()),
        custom_metadata: None,
    }
}

fn fixed_size_list(size: u32) -> ipc::Type {
    // A value has less than 4 GiB, but may have more than 2^31 elements. `StreamWriter` refuses
    // those, because no value of them fits into Arrow's offsets either.
    let list_size = i32::try_from(size).unwrap_or(i32::MAX);
    ipc::Type::FixedSizeList(Box::new(ipc::FixedSizeList { list_size }))
}

fn string_type(scalar: Scalar) -> ipc::Type {
    match scalar {
        Scalar::Utf8 => ipc::Type::Utf8(Box::default()),
        _ => ipc::Type::Binary(Box::default()),
    }
}

fn integer(scalar: Scalar) -> ipc::Int {
    ipc::Int { bit_width: 8 * scalar.size() as i32, is_signed: !scalar.is_unsigned() }
}

/// The type of one element of a field of numbers.
fn number_type(field: &Field) -> ipc::Type {
    if let Some(logical) = logical_type(&field.logical) {
        return logical;
    }
    let float = |precision| ipc::Type::FloatingPoint(Box::new(ipc::FloatingPoint { precision }));
    match field.scalar {
        Scalar::Boolean => ipc::Type::Bool(Box::default()),
        Scalar::Float16 => float(ipc::Precision::Half),
        Scalar::Float32 | Scalar::Bfloat16 => float(ipc::Precision::Single),
        Scalar::Float64 => float(ipc::Precision::Double),
        scalar => ipc::Type::Int(Box::new(integer(scalar))),
    }
}

/// The Arrow type of a logical type of numbers; `None` if Arrow has none for it.
fn logical_type(logical: &str) -> Option<ipc::Type> {
    let (word, unit) = match logical.split_once('[') {
        Some((word, unit)) => (word, unit.strip_suffix(']')?),
        None => (logical, ""),
    };
    let time_unit = match unit {
        "ms" => ipc::TimeUnit::Millisecond,
        "us" => ipc::TimeUnit::Microsecond,
        "ns" => ipc::TimeUnit::Nanosecond,
        _ => ipc::TimeUnit::Second,
    };
    Some(match word {
        "date" => ipc::Type::Date(Box::new(ipc::Date { unit: ipc::DateUnit::Day })),
        "timestamp" => {
            let timezone = Some("UTC".to_owned());
            ipc::Type::Timestamp(Box::new(ipc::Timestamp { unit: time_unit, timezone }))
        }
        "time" => {
            let bit_width = if matches!(unit, "us" | "ns") { 64 } else { 32 };
            ipc::Type::Time(Box::new(ipc::Time { unit: time_unit, bit_width }))
        }
        "uuid" => ipc::Type::FixedSizeBinary(Box::new(ipc::FixedSizeBinary { byte_width: 16 })),
        _ => return None,
    })
}

/// Metadata of the field: its own metadata, Arrow's extension type, and a logical type that Arrow
/// lacks.
fn metadata(field: &Field) -> Option<Vec<ipc::KeyValue>> {
    let pair = |key: &str, value: &str| ipc::KeyValue {
        key: Some(key.to_owned()),
        value: Some(value.to_owned()),
    };
    let mut pairs: Vec<_> = field.metadata.iter().map(|(key, value)| pair(key, value)).collect();
    match field.logical.as_str() {
        "" => {}
        extension @ ("uuid" | "json") => {
            pairs.push(pair("ARROW:extension:name", &format!("arrow.{extension}")));
            pairs.push(pair("ARROW:extension:metadata", ""));
        }
        logical if logical_type(logical).is_some() => {}
        logical => pairs.push(pair("logical", logical)),
    }
    (!pairs.is_empty()).then_some(pairs)
}
